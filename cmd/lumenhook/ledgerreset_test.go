package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

type aChain struct {
	*devnet.Network
	client *devclient.Client
	payer  string
}

func newChain(t *testing.T, interval time.Duration) *aChain {
	t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	n, err := devnet.Open(devnet.Config{
		Dir: t.TempDir(), Identities: ids, Listen: "127.0.0.1:0", CloseInterval: interval,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	c, err := devclient.New(n.RPCURL(), n.FriendbotURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(c.Close(), n.Close(), <-ended) })
	return &aChain{n, c, ids.PayerSeed}
}

func (c *aChain) pay(t *testing.T, wallet string) devclient.Payment {
	t.Helper()
	paid, err := c.client.Pay(t.Context(),
		devclient.PayRequest{From: c.payer, To: wallet, Amount: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return paid
}

func (c *aChain) open(t *testing.T, address string) {
	t.Helper()
	resp, err := http.Get(c.FriendbotURL() + "?addr=" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("friendbot answered %d", resp.StatusCode)
	}
}

// TestAResetNetworkIsReported resets a test network to a chain that is shorter than what was read.
// The follower says so, the process is not ready, doctor names the problem and the remedy, and the
// API still answers. `lumenhook ledger reset` refuses while the source serves the chain that was
// followed, and then switches to the new one: watches and events remain, and the payments of the
// new chain have events.
func TestAResetNetworkIsReported(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	former := newChain(t, 50*time.Millisecond)
	d := newDoor(t, former.RPCURL())
	args := []string{"--no-demo", "--broker-sync=false", "--network", devnet.DefaultPassphrase,
		"--ledger-poll-interval", "20ms", "--stellar-rpc-url", d.URL}
	s.start(args...)
	s.eventually("it is ready", s.saidReady)
	var endpoint, watch struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": "https://shop.invalid/hooks"},
		&endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	wallet, _, err := former.client.CreateAccount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status := s.call("POST", "/v1/watches", map[string]any{"walletAddress": wallet,
		"endpointId": endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}}},
		&watch); status != http.StatusCreated {
		t.Fatalf("the watch was answered %d", status)
	}
	first := former.pay(t, wallet)
	// The account's creation is another payment, unless its ledger was read before the watch existed.
	firsts := 0
	s.eventually("the first events", func() bool {
		events := s.eventsOf(wallet)
		firsts = len(events)
		return slices.ContainsFunc(events, func(e client.Event) bool {
			return strings.Contains(string(e.Data), fmt.Sprintf(`"ledger":%d,`, first.Ledger))
		})
	})
	s.eventually("many ledgers are read", func() bool { return s.cursor() > 150 })

	reset := []string{"ledger", "reset", "--network", devnet.DefaultPassphrase, "--stellar-rpc-url",
		d.URL}
	s.refused("nothing proves that the network was reset", reset...)

	next := newChain(t, 50*time.Millisecond)
	next.open(t, wallet)
	early := next.pay(t, wallet) // before the reset is noticed
	d.open(t, next.RPCURL())
	s.eventually("the process says so", func() bool {
		_, text, err := s.command("health", "--metrics-listen", strings.TrimSuffix(
			strings.TrimPrefix(s.file.MetricsURL, "http://"), "/metrics"))
		return err != nil && strings.Contains(text, "follower: the network was reset: ledger ")
	})
	if out, _, err := s.command("doctor", "--only", "ledgers"); err == nil ||
		!strings.Contains(out, "PROBLEM") || !strings.Contains(out, "the network was reset") ||
		!strings.Contains(out, "lumenhook ledger reset") {
		t.Errorf("doctor said (%v)\n%s", err, out)
	}
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK {
		t.Errorf("the API answered %d", status)
	}
	if n := strings.Count(s.output.String(), "serves another chain"); n != 1 {
		t.Errorf("%d lines of the log, want one:\n%s", n, s.output)
	}
	before := s.cursor()
	if out := s.must(append(reset, "--dry-run")...); !strings.Contains(out, "no: --dry-run") ||
		s.cursor() != before {
		t.Errorf("--dry-run said\n%s", out)
	}
	s.must(reset...)
	s.eventually("the new chain is followed", func() bool {
		return s.cursor() > domain.LedgersPerChain+2
	})
	s.eventually("the events from before it was noticed", func() bool {
		return len(s.eventsOf(wallet)) == firsts+2
	})
	late := next.pay(t, wallet)
	s.eventually("the events of both chains", func() bool {
		return len(s.eventsOf(wallet)) == firsts+3
	})
	s.eventually("the process is ready", func() bool {
		return s.call("GET", "/readyz", nil, nil) == http.StatusOK
	})
	ledgers := map[uint32]bool{}
	for _, e := range s.eventsOf(wallet) {
		var body struct{ Payment struct{ Ledger uint32 } }
		if err := json.Unmarshal(e.Data, &body); err != nil {
			t.Fatal(err)
		}
		ledgers[body.Payment.Ledger] = true
	}
	if !ledgers[first.Ledger] || !ledgers[early.Ledger] || !ledgers[late.Ledger] {
		t.Errorf("events of ledgers %v, want of %d, %d and %d, as their chains count", ledgers,
			first.Ledger, early.Ledger, late.Ledger)
	}
	if out, _, err := s.command("coverage"); err != nil {
		t.Errorf("a gap is reported between two chains (%v):\n%s", err, out)
	}
	s.refused("nothing proves that the network was reset", reset...)

	s.interrupt() // the new chain is followed after a restart, too
	s.start(args...)
	s.eventually("it is ready again", s.saidReady)
	read := s.cursor()
	s.eventually("it follows the new chain", func() bool { return s.cursor() > read })
	s.interrupt()
}

func (s *testService) cursor() uint32 {
	s.t.Helper()
	var read struct{ Cursor struct{ Ledger uint32 } }
	s.call("GET", "/v1/coverage", nil, &read)
	return read.Cursor.Ledger
}

func (s *testService) eventsOf(wallet string) []client.Event {
	s.t.Helper()
	var list client.List[client.Event]
	s.call("GET", "/v1/events?walletAddress="+wallet, nil, &list)
	return list.Data
}

// TestAResetNetworkIsReportedByServe does the same with a process per role and a second follower.
// Only the follower that reads ledgers is not ready. `lumenhook ledger reset`, with the service's
// own configuration, switches to the new chain while all processes run. The follower that takes
// over after a kill follows it as well.
func TestAResetNetworkIsReportedByServe(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	d := newDoor(t, a.rpc)
	a.rpc = d.URL
	config, secrets := a.configure()
	serve := func(of node.Role, name string) *role {
		return a.serveRole(of, name, config, secrets)
	}
	projector, engine := serve(node.RoleProjector, "projector"), serve(node.RoleEngine, "engine")
	api, active := serve(node.RoleAPI, "api"), serve(node.RoleFollower, "follower-0")
	standby := serve(node.RoleFollower, "follower-1")
	a.watch(api)
	paid, err := a.pays.Pay(t.Context(),
		devclient.PayRequest{From: a.payer, To: a.wallet, Amount: "1"})
	if err != nil {
		t.Fatal(err)
	}
	a.receives(engine, paid)

	settings := []string{"--config", config, "--secrets-dir", secrets}
	reset := append([]string{"ledger", "reset"}, settings...)
	refused := func() {
		t.Helper()
		out, err := program(reset...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "nothing proves that the network was reset") {
			t.Errorf("it should be refused, and said (%v)\n%s", err, out)
		}
	}
	refused()

	next := newChain(t, 50*time.Millisecond)
	next.open(t, a.wallet) // counts as a payment
	early := next.pay(t, a.wallet)
	d.open(t, next.RPCURL())
	active.until("the follower says so", func() bool {
		status, checks := active.ready()
		return status == http.StatusServiceUnavailable &&
			strings.Contains(checks["follower"], "the network was reset: ledger ")
	})
	for _, r := range []*role{projector, engine, api, standby} {
		if status, checks := r.ready(); status != http.StatusOK {
			t.Errorf("%s is not ready: %q", r.name, checks)
		}
	}
	out, err := program(append([]string{"doctor", "--only", "ledgers", "--roles", "follower"},
		settings...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the network was reset") {
		t.Errorf("doctor said (%v)\n%s", err, out)
	}
	if out := a.program(append(reset, "--dry-run")...); !strings.Contains(string(out),
		"no: --dry-run") || len(a.hooks.events()) != 1 {
		t.Errorf("--dry-run said\n%s", out)
	}
	a.program(reset...)
	a.receives(engine, early)
	a.receives(engine, next.pay(t, a.wallet))
	active.untilReady()
	refused()

	active.kill()
	a.receives(standby, next.pay(t, a.wallet))
	active.start()
	active.untilReady()
	a.receives(engine, next.pay(t, a.wallet))
	engine.until("an event of each of 6 payments", func() bool { return len(a.hooks.events()) >= 6 })
	if n := len(a.hooks.events()); n != 6 {
		t.Errorf("%d events were received, want 6", n)
	}
	for _, r := range []*role{standby, active, api, engine, projector} {
		r.terminate()
	}
}

func (a *addresses) serveRole(of node.Role, name, config, secrets string) *role {
	a.t.Helper()
	r := &role{t: a.t, name: name, args: []string{
		"serve", "--config", config, "--secrets-dir", secrets, "--roles", string(of),
		"--node-name", name, "--data-dir", filepath.Join(a.dir, "of-"+name),
	}}
	r.start()
	r.untilReady()
	return r
}

func (a *addresses) receives(while *role, paid devclient.Payment) {
	a.t.Helper()
	while.until("a payment is received", func() bool {
		for _, w := range a.hooks.events() {
			var event struct {
				Data struct{ Payment struct{ TxHash string } }
			}
			if err := json.Unmarshal(w.Body, &event); err != nil {
				a.t.Fatal(err)
			}
			if event.Data.Payment.TxHash == paid.TxHash {
				return true
			}
		}
		return false
	})
}
