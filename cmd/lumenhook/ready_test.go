package main

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/node"
)

// A network that does not answer must not hold up the API or run.json. The program names what is
// not ready, and prints ready only once /readyz agrees.
func TestRunIsReadyWhenReadyzSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	cfg := devnet.Config{
		Dir:           filepath.Join(dir, "devnet"),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: 200 * time.Millisecond,
		Logger:        slog.New(slog.DiscardHandler),
	}
	network, err := devnet.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = strings.TrimPrefix(network.RPCURL(), "http://")
	if err := network.Close(); err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: filepath.Join(dir, "data")}
	s.start("--no-demo", "--broker-sync=false", "--network", network.Passphrase(),
		"--stellar-rpc-url", network.RPCURL(), "--ledger-poll-interval", "50ms")
	const why = "not ready yet: follower: the source of ledgers cannot be used yet"
	if said := s.output.String(); !strings.Contains(said, why) || s.saidReady() {
		t.Errorf("without its network it said\n%s", said)
	}
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK {
		t.Errorf("without its network the API answered %d", status)
	}
	if status := s.call("GET", "/readyz", nil, nil); status != http.StatusServiceUnavailable {
		t.Errorf("without its network /readyz answered %d", status)
	}
	if network, err = devnet.Open(cfg); err != nil {
		t.Fatal(err)
	}
	stack := &node.Stack{Failed: func(err error) { t.Error(err) }, Logger: cfg.Logger}
	t.Cleanup(stack.Stop)
	stack.OnStop(func() { _ = network.Close() })
	stack.Go("the development network", network.Run)
	s.eventually("it says that it is ready", s.saidReady)
	if status := s.call("GET", "/readyz", nil, nil); status != http.StatusOK {
		t.Errorf("when it said ready, /readyz answered %d", status)
	}
	s.interrupt()
}

func (s *testService) saidReady() bool {
	return strings.Contains(s.output.String(), "  ready\n")
}
