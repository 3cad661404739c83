package devnet

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/network"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"

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
		{"address", func(c *Config) { c.Listen = "8000" }, "Listen"},
		{"interval too short", func(c *Config) { c.CloseInterval = time.Millisecond }, "CloseInterval"},
		{"interval too long", func(c *Config) { c.CloseInterval = 2 * time.Hour }, "CloseInterval"},
		{"queue", func(c *Config) { c.MaxPendingOperations = -1 }, "MaxPendingOperations"},
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
	_, err := Open(Config{Listen: "x"})
	if err == nil || !strings.Contains(err.Error(), "Dir") ||
		!strings.Contains(err.Error(), "Listen") || !strings.Contains(err.Error(), "payerSeed") {
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
	if n, err = Open(cfg); err != nil { // the failed ones left nothing behind
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// The ticker closes ledgers; a context ends the run without an error; a second run and a late
// call are refused; what was closed is there after a restart.
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
	want := n.published
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.CloseNow(); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
	if _, err := n.getHealth(); !errors.Is(err, errClosed) {
		t.Fatal(err)
	}
	if err := n.Run(ctx); err == nil {
		t.Fatal("ran after Close")
	}
	cfg.CloseInterval = time.Hour
	r := start(t, cfg)
	if r.published.header.Hash != want.header.Hash || r.published.oldest != 2 {
		t.Fatalf("reopened at %+v, not at %+v", r.published, want)
	}
	if next := r.closeLedger(); next != last+1 {
		t.Fatal(next, last)
	}
	r.verifyAll()
}

func waitForLedger(t *testing.T, ctx context.Context, n *Network, sequence uint32) {
	t.Helper()
	for {
		n.view.RLock()
		latest, closed := n.published.latest, n.closed
		n.view.RUnlock()
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

// Close while requests wait and clients are connected, with nobody ending the Run.
func TestCloseEndsRun(t *testing.T) {
	cfg := testConfig(t)
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	answered := make(chan int, 1)
	go func() { // waits for a ledger that is an hour away
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

// Old ledgers go, with their transactions; lowering the retention trims what a longer one kept.
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
		for _, kind := range []byte{keyHeader, keyLedger, keyTxIndex} {
			if _, there, err := get(again.store.db, sequenceKey(kind, sequence)); there || err != nil {
				t.Fatalf("%c %d: %v %v", kind, sequence, there, err)
			}
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
	var wg sync.WaitGroup
	made := make([]Identities, 8)
	for i := range made { // at once, and one wins
		wg.Go(func() {
			id, err := LoadOrCreateIdentities(path)
			if err != nil {
				t.Error(err)
			}
			made[i] = id
		})
	}
	wg.Wait()
	for _, id := range made {
		if id != made[0] || id.PayerAddress() == "" || !strings.HasPrefix(id.DemoAsset(), "USD:G") {
			t.Fatal("two processes got different identities:", id)
		}
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
		`{`:                       "not the JSON object",
		`{"payer":""}`:            "unknown field",
		`{}`:                      "payerSeed",
		strings.Repeat(" ", 5000): "5000 bytes",
	} {
		if err := write(text, 0o600); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(text, err)
		}
	}
	if err := write(`{}`, 0o644); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatal(err)
	}
}

// A transaction for the real network is worthless here, and the other way round.
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

// A folder of before there were offers goes on: a ledger that follows puts the market into it.
func TestAFolderWithoutAMarketGetsOne(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/format1.tar.gz", dir)
	ids, err := LoadOrCreateIdentities(filepath.Join(dir, "identities.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Dir:           filepath.Join(dir, "ledger"),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	}
	for range 2 { // the second time there is nothing to do
		n, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		latest := n.published.latest
		if err := n.Close(); err != nil || latest != 8 {
			t.Fatalf("the folder ended with ledger 7, and now with %d (%v)", latest, err)
		}
	}
	r := start(t, cfg)
	done := r.apply(txSpec{
		from: r.payer,
		ops: ops(&txnbuild.PathPaymentStrictSend{SendAsset: txnbuild.NativeAsset{}, SendAmount: "10",
			Destination: r.payer.Address(), DestAsset: r.demo, DestMin: "1"}),
	})
	if code := opCode(t, done.ResultXDR); code != "PathPaymentStrictSendSuccess" {
		t.Error(code)
	}
	for _, meta := range r.ledgers() {
		for _, tx := range meta.V2.TxProcessing {
			if meta.LedgerSequence() > 7 {
				claimsAreChanges(t, tx)
			}
		}
	}
}

// unpack extracts the files of a small archive.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var raw []byte
			if raw, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, raw, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
