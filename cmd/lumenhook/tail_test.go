package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// What is paid is seen on its way while it happens, with each attempt and what it ended with, also
// after the service was away; Ctrl-C ends it with 0.
func TestEventsAreSeenAsTheyHappen(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	h := startHooks(t, s.dir)
	// So many waits that also a slow machine shows an event while it fails.
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms",
		"--retry-schedule", strings.Repeat("1s,", 99) + "1s"}
	s.start(flags...)
	flags = append(flags, "--api-listen", strings.TrimPrefix(s.file.APIURL, "http://"))
	endpoint := s.endpointAt(h)
	wallet := s.watchedWalletOf(endpoint)
	s.eventually("a history", func() bool { _, err := s.tryCLI("events", "list"); return err == nil })
	all := s.tail("--json")
	others := s.tail("--wallet", aWallet)
	for _, p := range []puller{all, others} { // what is paid before it is not shown
		s.eventually("it tails", func() bool {
			return strings.Contains(p.said.String(), "as they happen")
		})
	}
	right := h.secret
	h.trust("whsec_wrong")
	s.must("devnet", "pay", "--to", wallet, "--amount", "1")
	s.eventually("an attempt that fails", func() bool {
		return has(t, all, func(l apicli.TailLine) bool {
			return l.Kind == "attempt" && l.State == "WAITING" && l.Attempt.StatusCode != nil &&
				*l.Attempt.StatusCode == http.StatusUnauthorized
		})
	})
	h.trust(right)
	s.eventually("one that does not", delivered(t, all, 1))
	s.interrupt()
	s.eventually("it is told", func() bool {
		return strings.Contains(all.said.String(), "once the service answers")
	})
	s.start(flags...)
	s.must("devnet", "pay", "--to", wallet, "--amount", "2")
	s.eventually("it goes on", delivered(t, all, 2))
	all.end(t, syscall.SIGINT)
	others.end(t, syscall.SIGINT)
	if strings.Contains(others.said.String(), "evt_") {
		t.Errorf("another wallet's tail shows\n%s", others.said)
	}
	s.interrupt()
}

// tail starts `lumenhook events tail`.
func (s *testService) tail(flags ...string) puller {
	s.t.Helper()
	args := append([]string{"events", "tail", "--data-dir", s.dir, "--api-url", s.file.APIURL,
		"--api-key", s.file.APIKey}, flags...)
	p := puller{program(args...), &testkit.Buffer{}}
	p.Stderr, p.Stdout = p.said, p.said
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// has reports whether a tail has shown such a line.
func has(t *testing.T, p puller, such func(apicli.TailLine) bool) bool {
	t.Helper()
	for line := range strings.Lines(p.said.String()) {
		var l apicli.TailLine
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &l) == nil && such(l) {
			return true
		}
	}
	return false
}

// delivered reports whether so many events were shown as created, and then as delivered.
func delivered(t *testing.T, p puller, n int) func() bool {
	return func() bool {
		created, done := make(map[string]bool), make(map[string]bool)
		has(t, p, func(l apicli.TailLine) bool {
			created[l.EventID] = created[l.EventID] || l.Kind == "event"
			done[l.EventID] = done[l.EventID] || l.Kind == "attempt" && l.State == "DELIVERED" &&
				created[l.EventID]
			return false
		})
		count := 0
		for _, is := range done {
			if is {
				count++
			}
		}
		return count == n
	}
}
