package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/forward"
)

// What was delivered is recorded without the endpoint's secret, and posted to a receiver that
// knows the fixtures' own.
func TestDeliveriesAreRecordedForTests(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	h := startHooks(t, s.dir)
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms")
	endpoint := s.endpointAt(h)
	wallet := s.watchedWalletOf(endpoint)
	for _, memo := range []string{"order-1", "order-2", "order-3"} {
		s.must("devnet", "pay", "--to", wallet, "--amount", "1", "--memo-text", memo)
	}
	s.eventually("they are delivered", func() bool { return h.count() == 3 })
	dir, redacted := filepath.Join(t.TempDir(), "webhooks"), filepath.Join(t.TempDir(), "webhooks")
	s.eventually("the history has them", func() bool {
		out, err := s.tryCLI("events", "list", "--state", "DELIVERED", "--field", "data.2.id")
		return err == nil && out != ""
	})
	s.refused("the endpoint has no matching event", "fixtures", "record", "--to", dir,
		"--memo", "none")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a folder was made of nothing: %v", err)
	}
	s.must("fixtures", "record", "--to", dir, "--last", "2")
	s.must("fixtures", "record", "--endpoint", endpoint, "--to", redacted, "--redact",
		"--memo", "order-1")
	all, err := forward.ReadAll(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v: %d fixtures", err, len(all))
	}
	sent := h.events()
	for _, f := range all {
		if was := sent[f.Headers["Webhook-Id"]]; string(was.Body) != string(f.Body) {
			t.Errorf("it is not what was delivered: %s", f.Body)
		}
	}
	one, err := forward.ReadAll(redacted)
	if err != nil || len(one) != 1 {
		t.Fatalf("%v: %d fixtures", err, len(one))
	}
	if id := one[0].Headers["Webhook-Id"]; len(sent[id].Body) > 0 {
		t.Errorf("a receiver that has %s drops it as a repetition", id)
	}
	for _, secret := range []string{wallet, "order-1", h.secret} {
		if strings.Contains(string(one[0].Body), secret) {
			t.Errorf("it has %s: %s", secret, one[0].Body)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), h.secret) {
			t.Errorf("%s has the endpoint's secret, or %v", file, err)
		}
	}
	s.interrupt()

	laptop := &onLaptop{secret: forward.Secret, times: make(map[string]int)}
	server := httptest.NewServer(laptop)
	t.Cleanup(server.Close)
	code, out, said := invoked(t, "fixtures", "replay", "--from", dir, "--to", server.URL)
	if events, _, bad := laptop.got(); code != 0 || events != 2 || bad != 0 {
		t.Errorf("it ended with %d, and %d were taken:\n%s%s", code, events, out, said)
	}
	code, _, said = invoked(t, "fixtures", "replay", "--from", dir, "--to", server.URL,
		"--secret", "whsec_another")
	if code != cli.ExitFailure || !strings.Contains(said, "did not accept 2 of 2") {
		t.Errorf("it ended with %d: %s", code, said)
	}
}

// A file that was recorded is checked as a webhook is: with the secret that stands in it, at any
// time.
func TestARecordedDeliveryIsVerified(t *testing.T) {
	created := time.Unix(1_793_620_801, 0)
	fixture := forward.NewFixture("evt_1", `{"type":"test.ping"}`, 1, created, false)
	file, err := fixture.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fixture.Body = []byte(`{"type": "test.ping"}`)
	changed, err := fixture.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(t.TempDir(), "later.json")
	if err := os.WriteFile(later, []byte(`{"format":"lumenhook-fixture/9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := string(forward.Secret)
	for _, c := range []struct {
		file, secret, anyTime string
		code                  int
		says                  string
	}{
		{file, secret, "true", 0, "the signature is valid"},
		{file, secret, "false", cli.ExitFailure, "--any-time accepts an old one"},
		{file, "whsec_another", "true", cli.ExitFailure, "the secret that stands in it"},
		{changed, secret, "true", cli.ExitFailure, "the file was changed"},
		{later, secret, "true", cli.ExitFailure, "(known: lumenhook-fixture/1)"},
	} {
		code, out, said := invoked(t, "verify", "--secret", c.secret, "--any-time="+c.anyTime,
			"--webhook", c.file)
		if code != c.code || !strings.Contains(out+said, c.says) {
			t.Errorf("it ended with %d, and does not say %q: %s%s", code, c.says, out, said)
		}
	}
}
