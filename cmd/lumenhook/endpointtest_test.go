package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// A script learns from the exit status whether the receiver accepted a test. The JSON output has
// the same form either way.
func TestATestThatTheReceiverDoesNotTakeFails(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--attempt-timeout", "5s")
	h := startHooks(t, s.dir)
	var e, nobody client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", h.url)
	s.cli(&nobody, "endpoints", "create", "--url", "https://127.0.0.1:1025/nobody")
	h.trust("whsec_of_another_endpoint")
	s.tests(e.ID, cli.ExitFailure, 401, "the receiver did not accept the test: HTTP 401: ")
	s.tests(e.ID, cli.ExitFailure, 401, "The test is retried like any event")
	s.tests(nobody.ID, cli.ExitFailure, 0, "the receiver did not accept the test: no answer, "+
		"CONN_REFUSED (connect: connection refused): ")
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	var untrusted client.Endpoint
	s.cli(&untrusted, "endpoints", "create", "--url", stranger.URL)
	s.tests(untrusted.ID, cli.ExitFailure, 0, "no answer, TLS (TLS handshake: tls: failed to verify "+
		"certificate: x509: certificate signed by unknown authority (self-signed; add it to egress-ca?)): ")
	h.trust(e.Secret)
	s.tests(e.ID, 0, 200, "")
	s.interrupt()
}

func (h *hooks) trust(secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secret = secret
}

// tests sends a test and checks its exit status, its JSON output, and its message.
func (s *testService) tests(endpoint string, code, status int, says string) {
	s.t.Helper()
	c := program("endpoints", "test", endpoint, "--json", "--data-dir", s.dir)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run() // the exit status is checked below
	if got := c.ProcessState.ExitCode(); got != code {
		s.t.Errorf("a test of %s ended with %d, not %d: %s", endpoint, got, code, &stderr)
	}
	var result client.TestResult
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		s.t.Errorf("%v in %q", err, &stdout)
	}
	answered := result.Attempt.StatusCode != nil
	if result.EventID == "" || answered != (status != 0) ||
		answered && *result.Attempt.StatusCode != status {
		s.t.Errorf("a test of %s gave %s", endpoint, &stdout)
	}
	if said := stderr.String(); says == "" && said != "" ||
		!bytes.Contains([]byte(said), []byte(says)) {
		s.t.Errorf("a test of %s said %q, not %q", endpoint, said, says)
	}
}
