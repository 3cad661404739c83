package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

var (
	soakPayments = flag.Int("soak.payments", 3000,
		"payments to watched wallets, at least, before their statements are reconciled")
	soakRounds = flag.Int("soak.rounds", 3, "rounds of them, between which the program is killed")
)

const (
	soakPayers  = 8
	soakWallets = 10
	soakAtOnce  = 100 // payments in one transaction
	// soakFaults are the faults of the source in every round, once it has reached their ledgers.
	soakFaults = "errors@20x10,garbage@30x5,gap@40x5,behind@50x3"
)

type soaked struct{ Address, Secret string }

// TestPaymentsThroughFaultsAreReconciled pays watched wallets from watched payers, while the source
// answers with errors and garbage, skips ledgers and goes back in time, and while the program is
// killed repeatedly. In the end, the statement of each wallet must equal its account's balance,
// with nothing unexplained. `make reconcile-soak` does it with a million payments.
func TestPaymentsThroughFaultsAreReconciled(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	args := []string{
		"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms", "--balance-moves",
	}
	s.start(args...)
	var endpoint client.Endpoint
	s.cli(&endpoint, "endpoints", "create", "--url", nobodysURL)
	wallets := make([]soaked, soakPayers+soakWallets)
	for i := range wallets {
		s.devnet(&wallets[i], "account", "--json")
		// No payment is that large: this is a test of moves, not of deliveries.
		s.cli(nil, "watches", "create", "--wallet", wallets[i].Address, "--endpoint", endpoint.ID,
			"--amount", "min:1000")
	}
	s.interrupt()
	args = append(args, "--stellar-faults", soakFaults)
	s.start(args...)
	payers, paid := wallets[:soakPayers], wallets[soakPayers:]
	var made atomic.Int64
	began := time.Now()
	for round := 1; ; round++ {
		target := int64(*soakPayments) * int64(round) / int64(*soakRounds)
		stop := s.paySoaked(payers, paid, &made)
		testkit.EventuallyNil(t, "payments are made", func() error {
			if n := made.Load(); n < target {
				return fmt.Errorf("%d of %d:\n%s", n, target, s.output)
			}
			return nil
		})
		n := made.Load()
		t.Logf("round %d of %d: %d of %d payments, %.0f a second", round, *soakRounds, n,
			*soakPayments, float64(n)/time.Since(began).Seconds())
		if round >= *soakRounds {
			stop()
			break
		}
		s.kill() // with payments in progress
		stop()
		s.start(args...)
	}
	moves := make([]uint64, len(wallets))
	for i, w := range wallets {
		for _, b := range s.reconciled(0, "", w.Address, "--timeout", "10m").Balances {
			moves[i] += b.Moves
		}
	}
	t.Logf("nothing is unexplained in %v moves of %d wallets, after %v", moves, len(wallets),
		time.Since(began).Round(time.Second))
	got := uint64(0)
	for _, n := range moves[soakPayers:] {
		got += n
	}
	if want := uint64(made.Load()); got < want || slices.Contains(moves, 0) { // #nosec G115 -- a count
		t.Errorf("%d moves of who was paid are recorded, and %d payments were made: %v", got, want, moves)
	}
	s.interrupt()
}

// paySoaked has each payer pay the wallets in turn until stop is called. A payment that a kill
// interrupts may be on the ledger, but is not counted.
func (s *testService) paySoaked(payers, wallets []soaked, made *atomic.Int64) (stop func()) {
	s.t.Helper()
	c, err := devclient.New(s.file.Stellar.RPCURL, s.file.Stellar.FriendbotURL)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var paying sync.WaitGroup
	for _, payer := range payers {
		from := []*keypair.Full{keypair.MustParseFull(payer.Secret)}
		payments := make([]txnbuild.Operation, soakAtOnce)
		for i := range payments {
			payments[i] = &txnbuild.Payment{
				Destination: wallets[i%len(wallets)].Address,
				Amount:      "0.0001",
				Asset:       txnbuild.NativeAsset{},
			}
		}
		paying.Go(func() {
			for ctx.Err() == nil { // the network may answer with a fault
				if _, err := c.Execute(ctx, from, nil, payments...); err == nil {
					made.Add(soakAtOnce)
				}
			}
		})
	}
	return func() {
		cancel()
		paying.Wait()
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	}
}
