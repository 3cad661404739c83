package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// lies returns one fault of each kind that a development network has, with three answers each. The
// faults are a few ledgers apart.
func lies(from, apart uint32) (flag string, last uint32) {
	var faults []string
	for i, kind := range devnet.FaultKinds() {
		last = from + uint32(i)*apart
		faults = append(faults, devnet.Fault{Kind: kind, Ledger: last, Answers: 3}.String())
	}
	return strings.Join(faults, ","), last
}

// Whatever the source of ledgers answers, the API must answer every request. Once the source is
// right again, every payment must be delivered once.
func TestASourceThatLiesStopsNothing(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	faults, last := lies(40, 12)
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms",
		"--broker-sync=false", "--log-level", "info", "--stellar-faults", faults)
	h := startHooks(t, s.dir)
	wallet := s.watchedWallet(h)
	var payers []string
	for range 2 {
		payers = append(payers, s.payer())
	}
	stop := s.payAllTheTime(payers, wallet)
	s.eventually("the source has told all its lies, and ledgers are read", func() bool {
		if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK {
			t.Errorf("the API answered %d", status)
		}
		var read struct{ Cursor struct{ Ledger uint32 } }
		s.call("GET", "/v1/coverage", nil, &read)
		return read.Cursor.Ledger > last+5 && strings.Count(s.output.String(), "an answer is spoiled") >=
			3*len(devnet.FaultKinds())
	})
	stop()
	var read struct{ Cursor struct{ Ledger uint32 } }
	s.call("GET", "/v1/coverage", nil, &read)
	s.account(h, read.Cursor.Ledger)
	metrics := s.text(s.file.MetricsURL)
	if !strings.Contains(metrics, `lumenhook_ready{part="follower"} 1`) {
		t.Errorf("the follower is not ready by the metrics:\n%s", metrics)
	}
	for _, line := range []string{"following the ledger was interrupted", "ledgers are read again"} {
		if n := strings.Count(s.output.String(), line); n > 3*len(devnet.FaultKinds()) {
			t.Errorf("%d lines %q", n, line)
		}
	}
	s.interrupt()
}

func (s *testService) payer() string {
	s.t.Helper()
	client, err := devclient.New(s.file.Stellar.RPCURL, s.file.Stellar.FriendbotURL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	_, seed, err := client.CreateAccount(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return seed
}

// If no ledger was read for a minute, the process must not be ready, and `lumenhook health` must
// say since when. The API still answers.
func TestAStalledSourceIsNotReady(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	// From ledger 60 on, the network claims that 60 is its latest.
	frozen := devnet.Fault{Kind: devnet.FaultFrozen, Ledger: 60, Answers: 1 << 30}
	s.start("--no-demo", "--broker-sync=false", "--network", devnet.DefaultPassphrase,
		"--ledger-poll-interval", "50ms", "--stellar-rpc-url",
		s.otherNetwork("", 100*time.Millisecond, frozen))
	s.eventually("it is ready", s.saidReady)
	const line = "reading ledgers has stalled"
	s.eventually("it is logged", func() bool { return strings.Contains(s.output.String(), line) })
	s.eventually("the process is not ready", func() bool {
		_, text, err := s.command("health", "--metrics-listen", strings.TrimSuffix(
			strings.TrimPrefix(s.file.MetricsURL, "http://"), "/metrics"))
		return err != nil && strings.Contains(text, "follower: no ledger was read since 20")
	})
	if status := s.call("GET", "/readyz", nil, nil); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz of the one process answered %d", status)
	}
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK {
		t.Errorf("the API answered %d", status)
	}
	s.interrupt()
	if n := strings.Count(s.output.String(), line); n != 1 {
		t.Errorf("%d lines of the log, want one:\n%s", n, s.output)
	}
}
