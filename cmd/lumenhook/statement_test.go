package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// A payment's matches are committed before its ledger counts. A statement that is requested in
// between, for example when the webhook arrives, must wait for the ledger and include the payment.
func TestAStatementHasThePaymentOfAWebhook(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	holds := filepath.Join(t.TempDir(), "hold")
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--balance-moves", "--fault-hold-file", holds)
	h := startHooks(t, s.dir)
	wallet := s.watchedWallet(h)
	paid := s.payUpToTheCursor(holds, wallet, "1s")
	var got client.Statement
	path := "/v1/wallets/" + wallet + "/statement"
	if status := s.call("GET", path, nil, &got); status != http.StatusOK {
		t.Fatalf("it was answered %d", status)
	}
	if got.ThroughLedger == nil || *got.ThroughLedger < paid.Ledger || len(got.Data) != 1 ||
		got.Data[0].Ledger != paid.Ledger {
		t.Errorf("of a payment in ledger %d: %+v", paid.Ledger, got)
	}
	code, out, said := invoked(t, "statement", "--wallet", wallet, "--from", "2999-01-01T00:00:00Z",
		"--data-dir", s.dir, "--json")
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(said, "--from is in the future") {
		t.Errorf("of the future it ended with %d: %s%s", code, out, said)
	}
	s.eventually("the webhook", func() bool { return h.has(paid.ID) })
	s.interrupt()
}
