package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestAReceiverWithoutAnAddressPullsEachEventOnce pulls events into a file while payments arrive
// and while the puller and the service are killed. In the end, the file must have each payment
// once, in the order of the numbers and without a gap. A sample of the lines is verified.
func TestAReceiverWithoutAnAddressPullsEachEventOnce(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--ledger-interval", "100ms"}
	s.start(flags...)
	flags = append(flags, "--api-listen", strings.TrimPrefix(s.file.APIURL, "http://"))
	var endpoint struct{ ID, Secret string }
	s.cli(&endpoint, "endpoints", "create", "--url", "https://127.0.0.1:8443/nobody")
	s.must("endpoints", "disable", endpoint.ID)
	wallet := s.watchedWalletOf(endpoint.ID)
	payers := make([]string, 2)
	for i := range payers {
		var account struct{ Secret string }
		s.devnet(&account, "account", "--json")
		payers[i] = account.Secret
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	for round := range 3 {
		p := s.follow(endpoint.ID, file)
		stop, had := s.payAllTheTime(payers, wallet), lines(t, file)
		s.eventually("events are pulled", func() bool { return lines(t, file) > had+3 })
		if round == 1 { // the puller survives a kill of the service
			s.kill()
			stop()
			s.start(flags...)
			stop, had = s.payAllTheTime(payers, wallet), lines(t, file)
			s.eventually("it goes on", func() bool { return lines(t, file) > had+3 })
		}
		p.end(t, syscall.SIGKILL)
		stop()
	}
	half, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = half.WriteString(`{"sequence":99999,"endpointId":"ep_`) // as after a kill
	if err := errors.Join(err, half.Close()); err != nil {
		t.Fatal(err)
	}
	p := s.follow(endpoint.ID, file)
	observed := s.observedPayments()
	s.eventually("all payments", func() bool {
		observed = s.observedPayments()
		return lines(t, file) >= len(observed)
	})
	p.end(t, syscall.SIGINT)
	s.holdsEach(file, endpoint.ID, endpoint.Secret, observed)
	s.refusedFile(file)
	s.interrupt()
}

func lines(t testing.TB, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// puller is a running command that follows events, such as `lumenhook events pull --follow`.
type puller struct {
	*exec.Cmd
	said *testkit.Buffer
}

func (s *testService) follow(endpointID, file string) puller {
	s.t.Helper()
	p := puller{program("events", "pull", "--endpoint", endpointID, "--to", file, "--follow",
		"--data-dir", s.dir, "--api-url", s.file.APIURL, "--api-key", s.file.APIKey), &testkit.Buffer{}}
	p.Stderr, p.Stdout = p.said, p.said
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// end stops the command with a signal. Unless it is killed, it must exit with 0.
func (p puller) end(t testing.TB, how syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil && how != syscall.SIGKILL {
		t.Errorf("it ended with %v and says\n%s", err, p.said)
	}
}

// holdsEach compares the file with the observed payments.
func (s *testService) holdsEach(file, endpointID, secret string, observed map[string]bool) {
	s.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	secretFile := filepath.Join(s.t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte(secret), 0o600); err != nil {
		s.t.Fatal(err)
	}
	seen, number := make(map[string]bool), int64(0)
	for line := range strings.Lines(string(text)) {
		var l apicli.PulledLine
		var event struct {
			ID   string
			Data struct{ Payment struct{ ID string } }
		}
		err := json.Unmarshal([]byte(line), &l)
		if err := errors.Join(err, json.Unmarshal([]byte(l.Body), &event)); err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		if number++; l.Sequence != number || l.EndpointID != endpointID || l.ID != event.ID {
			s.t.Errorf("line %d is %s", number, line)
		}
		if id := event.Data.Payment.ID; seen[id] || !observed[id] {
			s.t.Errorf("number %d is of payment %s: seen %t, observed %t", number, id, seen[id],
				observed[id])
		} else {
			seen[id] = true
		}
		if number%7 == 1 {
			c := program("verify", "--secret-file", secretFile, "--any-time", "--webhook", "-")
			c.Stdin = strings.NewReader(line)
			if out, err := c.CombinedOutput(); err != nil {
				s.t.Errorf("number %d: %v: %s", number, err, out)
			}
		}
	}
	if len(seen) != len(observed) || number < 12 {
		s.t.Errorf("%d payments of %d are in the file, in %d lines", len(seen), len(observed), number)
	}
}

// refusedFile checks that a file with other content, or of another endpoint, is refused and stays
// unchanged.
func (s *testService) refusedFile(file string) {
	s.t.Helper()
	var other struct{ ID string }
	s.cli(&other, "endpoints", "create", "--url", "https://127.0.0.1:8443/other")
	s.refused("it contains events of ep_", "events", "pull", "--endpoint", other.ID, "--to", file)
	mine := filepath.Join(s.t.TempDir(), "mine.txt")
	for _, text := range []string{"my notes", "my notes\n", "{\"sequence\":1}\nmy notes"} {
		if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		s.refused("name another file", "events", "pull", "--endpoint", other.ID, "--to", mine)
		if kept, err := os.ReadFile(mine); err != nil || string(kept) != text {
			s.t.Errorf("%q became %q, %v", text, kept, err)
		}
	}
}
