package devnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/network"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

func TestConfigFaults(t *testing.T) {
	good := testConfig(t)
	cases := []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"no folder", func(c *Config) { c.Dir = "" }, "Dir"},
		{"blank passphrase", func(c *Config) { c.Passphrase = " " }, "Passphrase"},
		{"address", func(c *Config) { c.Listen = "8000" }, `cannot listen on "8000"`},
		{"interval too short", func(c *Config) { c.CloseInterval = time.Millisecond }, "CloseInterval"},
		{"interval too long", func(c *Config) { c.CloseInterval = 2 * time.Hour }, "CloseInterval"},
		{"no identities", func(c *Config) { c.Identities = Identities{} }, "payerSeed"},
		{
			"address for a seed",
			func(c *Config) { c.Identities.IssuerSeed = c.Identities.IssuerAddress() },
			"issuerSeed",
		},
		{
			"one key twice",
			func(c *Config) { c.Identities.FriendbotSeed = c.Identities.PayerSeed },
			"friendbotSeed",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := good
			c.edit(&cfg)
			n, err := Open(cfg)
			if err == nil {
				n.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), good.Identities.PayerSeed) {
				t.Fatal(err)
			}
		})
	}
	_, err := Open(Config{CloseInterval: 1})
	if err == nil || !strings.Contains(err.Error(), "Dir") ||
		!strings.Contains(err.Error(), "CloseInterval") || !strings.Contains(err.Error(), "payerSeed") {
		t.Fatal("not every fault is told at once:", err)
	}
}

func TestOpenRefusesAnotherNetworksFolder(t *testing.T) {
	cfg := testConfig(t)
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Open(cfg); err == nil {
		other.Close()
		t.Fatal("a folder was opened twice")
	} else if !strings.Contains(err.Error(), "one process at a time") {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	renamed := cfg
	renamed.Passphrase = "Another ; 2026"
	strangers := cfg
	strangers.Identities = testConfig(t).Identities
	for want, wrong := range map[string]Config{
		"holds network":       renamed,
		"was made with payer": strangers,
	} {
		if other, err := Open(wrong); err == nil {
			other.Close()
			t.Fatal("opened another network's folder")
		} else if !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := cfg
	busy.Listen = taken.Addr().String()
	if other, err := Open(busy); err == nil {
		other.Close()
		t.Fatal("listened on a taken address")
	} else if !strings.Contains(err.Error(), "choose another address") {
		t.Fatal(err)
	}
	if n, err = Open(cfg); err != nil { // failed attempts left nothing behind
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRunAndReopen checks that a ticker closes ledgers, that cancelling the context ends Run
// without an error, that a second Run and late calls are refused, and that the ledgers are there
// after a restart.
func TestRunAndReopen(t *testing.T) {
	cfg := testConfig(t)
	cfg.CloseInterval = minCloseInterval
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(t))
	defer cancel()
	runCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(runCtx) }()
	waitForLedger(t, ctx, n, 5)
	if err := n.Run(ctx); err == nil {
		t.Fatal("ran twice")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(n.RPCURL()); err == nil {
		t.Fatal("still answers after Run")
	}
	last, err := n.CloseNow()
	if err != nil {
		t.Fatal(err)
	}
	want := n.tip
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.CloseNow(); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
	if _, err := n.call("getHealth", nil); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
	if err := n.Run(ctx); err == nil {
		t.Fatal("ran after Close")
	}
	cfg.CloseInterval = time.Hour
	r := start(t, cfg)
	if r.tip.header.Hash != want.header.Hash || r.tip.oldest != 2 {
		t.Fatalf("reopened at %+v, not at %+v", r.tip, want)
	}
	if next := r.closeLedger(); next != last+1 {
		t.Fatal(next, last)
	}
	r.verifyAll()
}

func waitForLedger(t *testing.T, ctx context.Context, n *Network, sequence uint32) {
	t.Helper()
	for {
		n.mu.RLock()
		latest, closed := n.tip.latest, n.closed
		n.mu.RUnlock()
		if latest >= sequence {
			return
		}
		select {
		case <-closed:
		case <-ctx.Done():
			t.Fatal("ledgers do not close: at", latest)
		}
	}
}

// Close must end a Run that nothing else ends, while requests are waiting and clients are
// connected.
func TestCloseEndsRun(t *testing.T) {
	cfg := testConfig(t)
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	answered := make(chan int, 1)
	go func() { // waits for a ledger that closes in an hour
		resp, err := http.Get(n.FriendbotURL() + "?addr=" + keypair.MustRandom().Address())
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.queue) == 1
	})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if status := <-answered; status != http.StatusServiceUnavailable {
		t.Fatal("the waiting request was answered", status)
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	testkit.Eventually(t, "the condition", condition)
}

// Old ledgers must be removed with their transactions. A lower retention trims a longer history.
func TestRetention(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	done := r.apply(txSpec{from: r.payer, ops: ops(lumensOp(r.issuer.Address(), "1"))})
	for range 10 {
		r.closeLedger()
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.RetentionLedgers = 4
	again := start(t, cfg)
	last := again.closeLedger()
	health, err := again.rpc.GetHealth(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if health.LatestLedger != last || health.OldestLedger != last-3 ||
		health.LedgerRetentionWindow != 4 {
		t.Fatalf("%+v after ledger %d", health, last)
	}
	if ledgers := again.ledgers(); len(ledgers) != 4 ||
		ledgers[0].LedgerCloseTime() != health.OldestLedgerCloseTime {
		t.Fatal("ledgers", len(ledgers))
	}
	if tx := again.transaction(done.TransactionHash); tx.Status != "NOT_FOUND" ||
		tx.OldestLedger != last-3 {
		t.Fatal("a trimmed ledger's transaction is still there:", tx.Status)
	}
	for sequence := uint32(1); sequence < last-3; sequence++ {
		if _, there, err := again.store.get(ledgerKey(sequence)); there || err != nil {
			t.Fatalf("ledger %d: %v %v", sequence, there, err)
		}
	}
	_, err = again.rpc.GetLedgers(context.Background(),
		protocol.GetLedgersRequest{StartLedger: last - 4})
	if err == nil || !strings.Contains(err.Error(), "must be between the oldest ledger") {
		t.Fatal(err)
	}
}

func TestIdentitiesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets", "devnet.json")
	var made [2]Identities
	for i := range made {
		id, err := LoadOrCreateIdentities(path)
		if err != nil || id.PayerAddress() == "" || !strings.HasPrefix(id.DemoAsset(), "USD:G") {
			t.Fatal(id, err)
		}
		made[i] = id
	}
	if made[0] != made[1] {
		t.Fatal("the identities are not those of the file:", made)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".identities-*")); len(left) != 0 {
		t.Fatal("left behind:", left)
	}
	for _, text := range []string{
		fmt.Sprint(made[0]), fmt.Sprintf("%+v", made[0]), fmt.Sprintf("%#v", made[0]),
		fmt.Sprintf("%v", Config{Identities: made[0]}),
	} {
		if strings.Contains(text, made[0].PayerSeed) {
			t.Fatal("a seed was printed")
		}
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("made", "identities", made[0])
	if strings.Contains(logged.String(), made[0].PayerSeed) ||
		!strings.Contains(logged.String(), made[0].PayerAddress()) {
		t.Fatal("logged:", logged.String())
	}
	write := func(text string, mode os.FileMode) error {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		_, err := LoadOrCreateIdentities(path)
		return err
	}
	for text, want := range map[string]string{
		`{`:            "is invalid",
		`{"payer":""}`: "unknown field",
		`{}`:           "payerSeed",
	} {
		if err := write(text, 0o600); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(text, err)
		}
	}
	if err := write(`{}`, 0o644); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatal(err)
	}
}

// With a passphrase of its own, a transaction of the devnet is invalid on a real network, and the
// other way round.
func TestPassphraseIsOurs(t *testing.T) {
	for _, real := range []string{
		network.PublicNetworkPassphrase, network.TestNetworkPassphrase,
		network.FutureNetworkPassphrase,
	} {
		if DefaultPassphrase == real {
			t.Fatal("the development network has a real network's name")
		}
	}
}
