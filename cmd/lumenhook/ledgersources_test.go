package main

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/node"
)

// door is a proxy in front of a network, which can be switched to another network.
type door struct {
	*httptest.Server
	behind atomic.Pointer[url.URL]
}

func newDoor(t *testing.T, address string) *door {
	t.Helper()
	d := &door{}
	d.open(t, address)
	d.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(d.behind.Load()) },
	})
	t.Cleanup(d.Close)
	return d
}

func (d *door) open(t *testing.T, address string) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	d.behind.Store(to)
}

// TestASourceThatLiesIsShown has one of three servers serve another chain under the name of this
// network. The command must name it, with the ledger and the time, until it agrees with the others
// again.
func TestASourceThatLiesIsShown(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	const interval = 200 * time.Millisecond
	honest, other := s.otherNetwork("", interval), s.otherNetwork("", interval/2) // gets ahead
	one, two, liar := newDoor(t, honest), newDoor(t, honest), newDoor(t, honest)
	began := time.Now()
	s.start("--no-demo", "--broker-sync=false", "--network", devnet.DefaultPassphrase,
		"--ledger-poll-interval", "50ms", "--ledger-quorum", "2", "--stellar-rpc-url", one.URL,
		"--stellar-rpc-url", two.URL, "--stellar-rpc-url", liar.URL, "--egress-allow", "127.0.0.1/32")
	s.eventually("all agree", func() bool {
		code, got := s.ledgerSources("")
		return code == 0 && states(got) == "agrees,agrees,agrees"
	})
	_, before := s.ledgerSources("")
	liar.open(t, other)
	name := "rpc " + strings.TrimPrefix(liar.URL, "http://")
	s.eventually("the liar is left out", func() bool {
		code, got := s.ledgerSources(name)
		return code == cli.ExitDiffers && states(got) == "agrees,agrees,left" &&
			got.Ledger > before.Ledger
	})
	_, got := s.ledgerSources(name)
	it := got.Sources[2]
	if it.Name != name || it.Left.Reason == "" || it.Left.Detail == "" || it.Left.Ledger == 0 ||
		it.Left.Since.Before(began) || it.Left.Since.After(time.Now()) || got.Need != 2 {
		t.Errorf("it is shown as %+v", it)
	}
	if out, _, _ := s.command("ledger", "sources"); !strings.Contains(out, name+"  left   ") {
		t.Errorf("people are shown\n%s", out)
	}
	s.doctorKnowsTheSettings(name)
	if !strings.Contains(s.text(s.file.MetricsURL), "\nlumenhook_ledger_sources_excluded 1\n") {
		t.Error("the metrics do not count the excluded source")
	}
	liar.open(t, honest)
	s.eventually("it is counted on again", func() bool {
		code, got := s.ledgerSources("")
		return code == 0 && states(got) == "agrees,agrees,agrees"
	})
	s.interrupt()
}

// doctorKnowsTheSettings checks that doctor tests each source of the running service and whether
// enough of them agree, and uses the service's egress settings.
func (s *testService) doctorKnowsTheSettings(liar string) {
	s.t.Helper()
	out, _, err := s.command("doctor", "--only", "ledgers,egress")
	for _, want := range []string{
		liar + ": ", "; if the test network was reset", "2 servers respond, and", "; 2 must agree",
		"and in 127.0.0.1/32",
	} {
		if err == nil || !strings.Contains(out, strings.TrimPrefix(want, "; ")) {
			s.t.Errorf("doctor ended with %v, and does not show %q:\n%s", err, want, out)
		}
	}
}

// ledgerSources runs the command. If a source differs, the error must name the faulty one.
func (s *testService) ledgerSources(faulty string) (code int, got node.LedgerSources) {
	s.t.Helper()
	out, stderr, err := s.command("ledger", "sources", "--json")
	if ended, failed := errors.AsType[*exec.ExitError](err); failed {
		code = ended.ExitCode()
	}
	if code == cli.ExitDiffers && !strings.Contains(stderr, faulty+" since ledger ") {
		s.t.Errorf("it says %s", stderr)
	}
	if code == cli.ExitFailure && strings.Contains(stderr, "is on standby") { // not elected yet
		return code, got
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		s.t.Fatalf("%v: %s%s", err, out, stderr)
	}
	return code, got
}

func states(s node.LedgerSources) string {
	var all []string
	for _, one := range s.Sources {
		all = append(all, string(one.State))
	}
	return strings.Join(all, ",")
}

// A single source is compared with nothing, and a process without an active follower has no answer.
func TestSourcesOfWhoHasNone(t *testing.T) {
	says(t, cli.ExitFailure, "the process has no follower", []string{"ledger", "sources"},
		"--metrics-listen", newStarting(t))
	standby := newStarting(t, func(cfg *node.Config) {
		cfg.Follower.Standings = func() domain.SourceStatuses { return domain.SourceStatuses{} }
	})
	says(t, cli.ExitFailure, "is on standby", []string{"ledger", "sources"}, "--metrics-listen",
		standby)
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--broker-sync=false", "--ledger-interval", "200ms")
	s.eventually("it gives ledgers", func() bool {
		code, got := s.ledgerSources("")
		return code == 0 && got.Sources[0].State == domain.SourceAlone && got.Sources[0].Ledger > 1
	})
	s.interrupt()
}
