package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/receipt"
)

// TestAReceiptOutlivesTheService proves a failed attempt and a successful one by receipts, which
// must verify without the service, and not after a change. The log must be the same after a kill
// and a rebuild of its tables.
func TestAReceiptOutlivesTheService(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)
	endpoint := s.endpointAt(h)
	h.mu.Lock()
	right := h.secret
	h.secret = "whsec_" + strings.Repeat("A", 52) // so that the receiver refuses
	h.mu.Unlock()
	s.devnet(nil, "pay", "--to", s.watchedWalletOf(endpoint), "--amount", "5")
	event := s.attempted(1)
	s.refused("secrets signing create", "events", "receipt", event)
	s.must("secrets", "signing", "create")
	s.eventually("the key is published",
		func() bool { return strings.Contains(string(s.keySet()), "kid") })
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, text []byte) string {
		t.Helper()
		if err := os.WriteFile(file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file(name)
	}
	keys := write("keys.json", s.keySet())
	s.must("events", "receipt", event, "--out", file("failed.json"))
	s.refused("file exists", "events", "receipt", event, "--out", file("failed.json"))

	h.mu.Lock()
	h.secret = right
	h.mu.Unlock()
	s.must("events", "resend", event)
	if again := s.attempted(2); again != event {
		t.Fatalf("%s was attempted, not %s", again, event)
	}
	s.must("events", "receipt", event, "--out", file("both.json"), "--earlier-size", "1")
	before := s.checkpoint(file("both.json"))
	s.kill()
	s.start(flags...)
	s.must("rebuild", "--all")
	s.must("events", "receipt", event, "--out", file("rebuilt.json"), "--earlier-size", "1")
	if after := s.checkpoint(file("rebuilt.json")); after != before {
		t.Errorf("rebuilt, the log is\n%s\nand it was\n%s", after, before)
	}
	s.interrupt() // from here on, everything works offline

	body := write("body.json", h.last().Body)
	said := s.offline(0, "verify-receipt", file("rebuilt.json"), "--keys", keys, "--body", body,
		"--earlier", file("failed.json"))
	for _, want := range []string{
		"is valid", "attempt 1 at", "attempt 2 at", "2 attempts when the key",
		"each attempt was sent with the body in " + body,
		"the log of " + endpoint + " continues from its first 1 attempts",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, without %q", said, want)
		}
	}
	said = s.offline(0, "verify-receipt", file("both.json"), "--keys", keys, "--field", "logs.0.size")
	if said != "2\n" {
		t.Errorf("the log has %q leaves", said)
	}
	s.offline(3, "verify-receipt", file("both.json"), "--keys", keys, "--body", keys)
	s.offline(3, "verify-receipt", file("failed.json"), "--keys", keys, "--earlier", file("both.json"))
	text, err := os.ReadFile(file("both.json"))
	if err != nil {
		t.Fatal(err)
	}
	forged := write("forged.json",
		[]byte(strings.Replace(string(text), `"number": 1`, `"number": 3`, 1)))
	if said := s.offline(3, "verify-receipt", forged, "--keys", keys); !strings.Contains(said,
		"is not leaf 0 of the signed log") {
		t.Errorf("it says %q", said)
	}
	s.unproved(3, "is not leaf 0 of the signed log", forged, keys)
	s.unproved(1, "not a receipt: the file is empty", write("empty.json", nil), keys)
	s.unproved(1, "not a receipt", keys, keys)
	s.unproved(1, "no such file", file("missing.json"), file("missing-keys.json"))
	if said := s.offline(2, "verify-receipt", file("missing.json")); !strings.Contains(said,
		"--keys is required") || !strings.Contains(said, "missing.json: no such file") {
		t.Errorf("it says %q", said)
	}
}

// unproved checks that verify-receipt rejects a receipt, by its JSON output.
func (s *testService) unproved(code int, reason, file, keys string) {
	s.t.Helper()
	c := program("verify-receipt", file, "--keys", keys, "--json")
	out, err := c.Output()
	exit := (*exec.ExitError)(nil)
	var said struct {
		Verified *bool
		Reason   string
		Logs     []any
	}
	if !errors.As(err, &exit) || exit.ExitCode() != code || json.Unmarshal(out, &said) != nil ||
		said.Verified == nil || *said.Verified || !strings.Contains(said.Reason, reason) ||
		!strings.Contains(said.Reason, filepath.Base(file)) || said.Logs != nil {
		s.t.Errorf("of %s it ended with %v, and says %s", file, err, out)
	}
}

// attempted waits until the only event has exactly so many attempts in the history.
func (s *testService) attempted(times int) (eventID string) {
	s.t.Helper()
	var list client.List[client.Event]
	s.eventually("it is attempted", func() bool {
		if s.call("GET", "/v1/events", nil, &list) != http.StatusOK || len(list.Data) != 1 {
			return false
		}
		event, err := s.client(s.file.APIKey).GetEvent(s.t.Context(), list.Data[0].ID)
		return err == nil && len(event.Attempts) == times
	})
	return list.Data[0].ID
}

func (s *testService) checkpoint(file string) string {
	s.t.Helper()
	var r receipt.Receipt
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Logs) != 1 {
		s.t.Fatalf("%s: %v", text, err)
	}
	checkpoint, _, _ := strings.Cut(r.Logs[0].Checkpoint, "\n\n")
	return checkpoint
}

// offline runs the program without a service and returns its output.
func (s *testService) offline(code int, args ...string) string {
	s.t.Helper()
	c := program(args...)
	c.Dir = s.t.TempDir()
	out, err := c.CombinedOutput()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != code {
		s.t.Errorf("%v ended with %d, not %d, and says\n%s", args, got, code, out)
	}
	return string(out)
}
