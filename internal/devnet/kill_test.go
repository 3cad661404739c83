package devnet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
)

const childVariable = "LUMENHOOK_DEVNET_TEST_CHILD"

// TestMain runs the test binary as a network that a test can kill, if childVariable is set.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type childConfig struct {
	Dir        string
	Identities Identities
}

func runChild(text string) error {
	var child childConfig
	if err := json.Unmarshal([]byte(text), &child); err != nil {
		return err
	}
	n, err := Open(Config{
		Dir:           child.Dir,
		Identities:    child.Identities,
		Listen:        "127.0.0.1:0",
		CloseInterval: minCloseInterval,
	})
	if err != nil {
		return err
	}
	fmt.Println(n.RPCURL())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // in case nobody kills it
	defer cancel()
	return n.Run(ctx)
}

// If the network is killed at any moment, its folder must continue from the last ledger that anyone
// saw. Every payment that was reported in a ledger is in that ledger afterwards (D1), the chain is
// valid, and no lumen is lost.
func TestKill(t *testing.T) {
	cfg := testConfig(t)
	to := keypair.MustRandom().Address()
	payments := map[string]uint32{}
	var latest uint32
	for round := range 6 {
		latest = max(latest,
			killedRound(t, cfg, to, payments, time.Duration(120+37*round)*time.Millisecond))
	}
	if len(payments) == 0 {
		t.Fatal("no payment was made before the kills")
	}
	r := start(t, cfg)
	if r.tip.latest < latest {
		t.Fatalf("ledger %d was served, and the last is %d", latest, r.tip.latest)
	}
	for hash, ledger := range payments {
		if done := r.transaction(hash); done.Status != "SUCCESS" || done.Ledger != ledger {
			t.Fatalf("payment %s of ledger %d is now %s of ledger %d",
				hash, ledger, done.Status, done.Ledger)
		}
	}
	if got := r.lumens(to); got < 10_000*stroopsPerUnit+int64(len(payments)) {
		t.Fatalf("%d payments of a stroop left %d", len(payments), got)
	}
	r.closeLedger()
	r.verifyAll()
	t.Logf("%d payments, %d ledgers", len(payments), r.tip.latest)
}

// killedRound runs a network, pays through it for a while and kills it. It returns the last ledger
// that a client saw.
func killedRound(
	t *testing.T, cfg Config, to string, payments map[string]uint32, life time.Duration,
) uint32 {
	t.Helper()
	text, err := json.Marshal(childConfig{Dir: cfg.Dir, Identities: cfg.Identities})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the network did not start")
	}
	url := lines.Text()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(t))
	defer cancel()
	go func() {
		timer := time.NewTimer(life)
		defer timer.Stop()
		<-timer.C
		_ = cmd.Process.Kill()
	}()
	return payUntilGone(ctx, t, url, cfg.Identities.PayerSeed, to, payments)
}

func payUntilGone(
	ctx context.Context, t *testing.T, url, payer, to string, payments map[string]uint32,
) (latest uint32) {
	t.Helper()
	client, err := devclient.New(url, url+"/friendbot")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	watcher := rpcclient.NewClient(url, nil)
	defer watcher.Close()
	_ = client.Fund(ctx, to) // fails from the second round on
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for {
				paid, err := client.Pay(ctx, devclient.PayRequest{From: payer, To: to, Amount: "0.0000001"})
				if err != nil {
					return
				}
				health, err := watcher.GetHealth(ctx)
				mu.Lock()
				payments[paid.TxHash] = paid.Ledger
				if err == nil {
					latest = max(latest, health.LatestLedger)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return latest
}

// A copy of a running network's folder must open as that network at its last ledger, because
// nothing that was served is only in memory.
func TestCopyOfAnOpenFolder(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	holder := r.account("25")
	done := r.apply(txSpec{from: r.payer, ops: ops(lumensOp(holder.Address(), "5"))})
	copied := cfg
	copied.Dir = t.TempDir()
	if err := os.CopyFS(copied.Dir, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	again := start(t, copied)
	if again.tip.header.Hash != r.tip.header.Hash {
		t.Fatal("the copy is behind")
	}
	if again.lumens(holder.Address()) != 30*stroopsPerUnit ||
		again.transaction(done.TransactionHash).Status != "SUCCESS" {
		t.Fatal("the copy lacks a payment")
	}
	again.closeLedger()
	again.verifyAll()
	r.closeLedger()
	r.verifyAll()
}
