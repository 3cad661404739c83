package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// A tail shows payments as they happen, with each attempt and its result, and continues after the
// service was away. Ctrl-C stops it with exit code 0.
func TestEventsAreSeenAsTheyHappen(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	h := startHooks(t, s.dir)
	// So many retries that even a slow machine shows an event that is still failing.
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms",
		"--retry-schedule", strings.Repeat("1s,", 99) + "1s"}
	s.start(flags...)
	flags = append(flags, "--api-listen", strings.TrimPrefix(s.file.APIURL, "http://"))
	endpoint := s.endpointAt(h)
	wallet := s.watchedWalletOf(endpoint)
	s.eventually("a history", func() bool { _, err := s.tryCLI("events", "list"); return err == nil })
	all := s.tail("--json")
	others := s.tail("--wallet", s.watchedWalletOf(endpoint))
	for _, p := range []puller{all, others} { // earlier payments are not shown
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
	s.eventually("and says so", func() bool {
		return strings.Contains(all.said.String(), "the service answers again")
	})
	all.end(t, syscall.SIGINT)
	if strings.Contains(all.said.String(), "dial tcp") {
		t.Errorf("it says what no person asks for:\n%s", all.said)
	}
	others.end(t, syscall.SIGINT)
	if strings.Contains(others.said.String(), "evt_") {
		t.Errorf("another wallet's tail shows\n%s", others.said)
	}
	s.interrupt()
}

// A filter that names an unknown endpoint, watch or wallet is rejected. One that may still match
// waits for events.
func TestATailRefusesAFilterOfNothing(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	h := startHooks(t, s.dir)
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms")
	endpoint := s.endpointAt(h)
	s.eventually("a history", func() bool { _, err := s.tryCLI("events", "list"); return err == nil })
	for want, filter := range map[string][]string{
		"no endpoint with this id: " + noEndpoint: {"--endpoint", noEndpoint},
		"no watch with this id: " + noWatch:       {"--endpoint", endpoint, "--watch", noWatch},
		"--wallet: none of your watches":          {"--wallet", aWallet},
		"--wallet: must be an account's address":  {"--wallet", "GXXX"},
	} {
		args := append([]string{"events", "tail", "--data-dir", s.dir}, filter...)
		code, out, said := invoked(t, args...)
		if code == 0 || !strings.Contains(said, want) || strings.Contains(out+said, "as they happen") {
			t.Errorf("%q ended with %d: %s%s", filter, code, out, said)
		}
	}
	one := s.tail("--wallet", s.watchedWalletOf(endpoint), "--memo", "order-1")
	s.eventually("it waits", func() bool {
		return strings.Contains(one.said.String(), "as they happen")
	})
	one.end(t, syscall.SIGINT)
	s.interrupt()
}

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

// delivered reports whether exactly n events were shown as created, and then as delivered.
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

// Far more events arrive than a tail reads, remembers and requests. It must report each limit that
// it reaches, once per flood, show no event twice, and continue.
func TestATailOfAFloodSaysWhatItDoesNotShow(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	h := startHooks(t, s.dir)
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms")
	endpoint := s.endpointAt(h)
	const many = 40 // events per payment
	flooded := s.watchedWalletOf(endpoint)
	single := s.watchedWalletOf(endpoint)
	c := s.client(s.file.APIKey)
	for range many - 1 {
		_, err := c.CreateWatch(t.Context(), client.WatchCreate{
			WalletAddress: flooded, EndpointID: endpoint, Assets: []client.Asset{{Code: "XLM"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.must("endpoints", "disable", endpoint) // keeps new events pending
	s.must("devnet", "pay", "--to", flooded, "--amount", "1")
	s.eventually("a flood", func() bool {
		list, err := c.ListEvents(t.Context(), client.EventFilter{}, client.Page{Limit: 250})
		return err == nil && len(list.Data) == many
	})

	shown, told := puller{said: &testkit.Buffer{}}, &testkit.Buffer{}
	tail := apicli.Tail{
		Client: c, Filter: client.EventFilter{Since: time.Now()}, Out: shown.said, Tell: told, JSON: true,
		Bounds: apicli.TailBounds{Page: 5, Pages: 2, Known: 12, Asked: 3},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tail.Run(ctx) }()
	tells := func(what string) func() bool {
		return func() bool { return strings.Contains(told.String(), what) }
	}
	s.eventually("it reports events from before", tells("more than 10 events are already QUEUED"))
	s.must("devnet", "pay", "--to", flooded, "--amount", "2")
	s.eventually("it reports events that it skips", tells("more than 10 events came at once"))
	s.eventually("it reports events that it drops", tells("too many pending events"))
	s.must("endpoints", "enable", endpoint)
	s.eventually("attempts of more than one round reads", func() bool {
		read := make(map[string]bool)
		has(t, shown, func(l apicli.TailLine) bool {
			if l.Kind == "attempt" && l.State == "DELIVERED" {
				read[l.EventID] = true
			}
			return false
		})
		return len(read) > tail.Bounds.Asked
	})
	said := strings.Count(told.String(), "came at once")
	s.must("devnet", "pay", "--to", single, "--amount", "3")
	var event string
	s.eventually("it goes on", func() bool {
		return has(t, shown, func(l apicli.TailLine) bool {
			if l.Kind == "event" && strings.Contains(string(l.Data), `"3.0000000"`) {
				event = l.EventID
			}
			return event != "" && l.EventID == event && l.Kind == "attempt" && l.State == "DELIVERED"
		})
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if again := strings.Count(told.String(), "came at once"); again != said {
		t.Errorf("it tells of one flood %d times more:\n%s", again-said, told)
	}
	seen := make(map[string]bool)
	has(t, shown, func(l apicli.TailLine) bool {
		if l.Kind == "event" && seen[l.EventID] {
			t.Errorf("%s is shown as created twice", l.EventID)
		}
		seen[l.EventID] = seen[l.EventID] || l.Kind == "event"
		return false
	})
	s.interrupt()
}
