package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/ops"
)

// nobodysURL is the URL of an endpoint at which nothing listens.
const nobodysURL = "https://127.0.0.1:1025/nobody"

// A wallet's statement equals its account's balance until a move is not recorded. Then the balance
// differs, and is unexplained from the next move on. A merged wallet has nothing on either side.
func TestAWalletIsReconciled(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--retry-schedule", "1h", "--balance-moves")
	var wallet struct{ Address, Secret string }
	s.devnet(&wallet, "account", "--json")
	var endpoint client.Endpoint
	s.cli(&endpoint, "endpoints", "create", "--url", nobodysURL)
	var watch client.Watch
	s.cli(&watch, "watches", "create", "--wallet", wallet.Address, "--endpoint", endpoint.ID)
	pay := func(amount string) {
		s.devnet(nil, "pay", "--to", wallet.Address, "--amount", amount)
	}
	if r := s.reconciled(1, "nothing was compared: no move of these balances is recorded",
		wallet.Address); r.Balances[0].Closing != nil || r.Balances[0].Held != "10000.0000000" {
		t.Errorf("before a move: %+v", r)
	}
	pay("5")
	if _, stderr, err := s.command("reconcile", "--wallet", wallet.Address); err != nil ||
		stderr != "" {
		t.Errorf("of a balance that was compared it says %q: %v", stderr, err)
	}
	rpc := []string{"--stellar-rpc-url", s.file.Stellar.RPCURL}
	for _, source := range [][]string{nil, rpc, {"--asset", "XLM"}} {
		r := s.reconciled(0, "", wallet.Address, source...)
		if b := r.Balances[0]; len(r.Balances) != 1 || b.Moves != 1 || *b.Closing != b.Held ||
			*b.Opening != "10000.0000000" || b.Held != "10005.0000000" || !r.AccountExists {
			t.Errorf("%v: %+v", source, r)
		}
	}
	s.sourcesThatAreNotTheServices(wallet.Address)

	pay("3")
	s.reconciled(0, "", wallet.Address)
	s.loseMove(wallet.Address, 10008_0000000)
	r := s.reconciled(3, "XLM: the source has 10008.0000000 and the statement 10005.0000000",
		wallet.Address)
	if b := r.Balances[0]; *b.Difference != "3.0000000" || *b.Unexplained != "0.0000000" {
		t.Errorf("%+v", r)
	}
	pay("1")
	r = s.reconciled(3, "XLM: 3.0000000 is unexplained", wallet.Address, rpc...)
	if b := r.Balances[0]; *b.Difference != "0.0000000" || *b.Unexplained != "3.0000000" ||
		b.Moves != 2 || b.Held != "10009.0000000" {
		t.Errorf("%+v", r)
	}

	var merged struct{ Address, Secret string }
	s.devnet(&merged, "account", "--json")
	s.cli(nil, "watches", "create", "--wallet", merged.Address, "--endpoint", endpoint.ID)
	s.merge(merged.Secret, wallet.Address)
	for _, source := range [][]string{nil, rpc} {
		r = s.reconciled(0, "", merged.Address, source...)
		if b := r.Balances[0]; r.AccountExists || *b.Closing != "0.0000000" || b.Moves != 2 ||
			b.Held != "0.0000000" {
			t.Errorf("merged: %+v", r)
		}
	}
	if out := s.must("reconcile", "--wallet", merged.Address); !strings.Contains(out,
		"it was merged into another") || !strings.Contains(out, "DIFFERENCE") {
		t.Errorf("it prints %s", out)
	}
	s.interrupt()
}

// loseMove deletes the move after which a wallet held stroops, as if it had never been seen.
func (s *testService) loseMove(wallet string, stroops int64) {
	s.t.Helper()
	history := s.file.ClickHouse
	conn, err := driver.Open(&driver.Options{
		Addr: []string{history.Native},
		Auth: driver.Auth{
			Database: history.Database,
			Username: history.Login.User,
			Password: history.Login.Password,
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	const lose = "ALTER TABLE balance_moves DELETE WHERE wallet_address = ? AND after_stroops = ? " +
		"SETTINGS mutations_sync = 1"
	if err := conn.Exec(s.t.Context(), lose, wallet, stroops); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testService) reconciled(
	code int, says, wallet string, more ...string,
) (r ops.ReconcileReport) {
	s.t.Helper()
	out, stderr, err := s.command(append([]string{"reconcile", "--wallet", wallet, "--json"},
		more...)...)
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	}
	if got != code || !strings.Contains(stderr, says) {
		s.t.Fatalf("%v: it ended with %d and not %d, and should say %q: %s %s", more, got, code, says,
			out, stderr)
	}
	if (code == 1 || code == 2) && out == "" {
		return r
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Balances) == 0 {
		s.t.Fatalf("%v: %v in %s", more, err, out)
	}
	return r
}

// sourcesThatAreNotTheServices checks that unsuitable sources cause errors, and never differences:
// one of another network, one that is behind the record, one that is ahead of the service, and one
// at which nothing listens.
func (s *testService) sourcesThatAreNotTheServices(wallet string) {
	s.t.Helper()
	at := func(url string) []string { return []string{"--stellar-rpc-url", url} }
	s.reconciled(1, "the source serves another network", wallet,
		at(s.otherNetwork("another network", time.Hour))...)
	s.reconciled(1, "the source is behind: rpc 127.0.0.1:", wallet,
		at(s.otherNetwork("", time.Hour))...)
	s.reconciled(1, "127.0.0.1:1", wallet, at("http://127.0.0.1:1")...)
	fast := at(s.otherNetwork("", 50*time.Millisecond))
	s.eventually("the service is behind the faster network", func() bool {
		_, stderr, err := s.command(append([]string{
			"reconcile", "--wallet", wallet, "--timeout", "1s",
		}, fast...)...)
		return err != nil && strings.Contains(stderr, "the service is behind: it has read up to ledger")
	})
}

// otherNetwork runs a development network with faults, by default with the service's passphrase,
// and returns its URL.
func (s *testService) otherNetwork(
	passphrase string, interval time.Duration, faults ...devnet.Fault,
) (url string) {
	s.t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := devnet.Open(devnet.Config{
		Dir:           s.t.TempDir(),
		Identities:    ids,
		Passphrase:    passphrase,
		Listen:        "127.0.0.1:0",
		CloseInterval: interval,
		Faults:        faults,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(s.t.Context()) }()
	s.t.Cleanup(func() { _ = errors.Join(n.Close(), <-ended) })
	return n.RPCURL()
}

func (s *testService) merge(secret, into string) {
	s.t.Helper()
	ctx, key := s.t.Context(), keypair.MustParseFull(secret)
	rpc := rpcclient.NewClient(s.file.Stellar.RPCURL, nil)
	defer rpc.Close()
	account, err := rpc.LoadAccount(ctx, key.Address())
	if err != nil {
		s.t.Fatal(err)
	}
	tx, err := txnbuild.NewTransaction(txnbuild.TransactionParams{
		SourceAccount:        account,
		IncrementSequenceNum: true,
		Operations:           []txnbuild.Operation{&txnbuild.AccountMerge{Destination: into}},
		BaseFee:              devnet.BaseFeeStroops,
		Preconditions:        txnbuild.Preconditions{TimeBounds: txnbuild.NewInfiniteTimeout()},
	})
	if err == nil {
		tx, err = tx.Sign(devnet.DefaultPassphrase, key)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	envelope, err := tx.Base64()
	if err != nil {
		s.t.Fatal(err)
	}
	sent, err := rpc.SendTransaction(ctx, protocol.SendTransactionRequest{Transaction: envelope})
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the merge", func() bool {
		got, err := rpc.GetTransaction(ctx, protocol.GetTransactionRequest{Hash: sent.Hash})
		return err == nil && got.Status == protocol.TransactionStatusSuccess
	})
}
