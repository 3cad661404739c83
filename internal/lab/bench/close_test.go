package bench

import (
	"context"
	"errors"
	"flag"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
)

var closeTime = flag.Duration("close-time", 40*time.Second, "Close: how long payments are made")

const (
	closeWallets = 8
	closeRate    = 20.0 // payments per second
	closeEvery   = time.Second
)

// BenchmarkClose measures the time from the last moment at which the RPC of `lumenhook run` did
// not have a ledger yet to the arrival of the webhooks for its payments.
func BenchmarkClose(b *testing.B) { measured(closes)(b) }

func closes(l *lab) metrics {
	s := l.serve(closeWallets, "--ledger-interval", closeEvery.String())
	network, err := devclient.New(s.run.Stellar.RPCURL, s.run.Stellar.FriendbotURL)
	must(l, err)
	defer network.Close()
	payers, wallets, watches := s.watched(network)
	s.expect(0)
	seen := &ledgers{at: make(map[uint32]time.Time)}
	seen.last.Store(math.MaxUint32)
	looked := make(chan error, 1)
	go func() { looked <- seen.look(l.Context(), s.run.Stellar.RPCURL) }()
	paid := s.pay(network, payers, wallets)
	last := uint32(0)
	for _, p := range paid {
		last = max(last, p.Ledger)
	}
	seen.last.Store(last)
	must(l, <-looked)
	l.awaitArrivals(len(paid))
	var took []time.Duration
	for n, p := range paid {
		at, is := seen.at[p.Ledger]
		if !is {
			l.Fatalf("ledger %d was not seen", p.Ledger)
		}
		took = append(took, l.arrival(domain.EventID(watches[n%closeWallets], p.ID)).Sub(at))
	}
	p50, p99 := percentiles(took)
	return metrics{"p50-ms": p50, "p99-ms": p99, "payments": float64(len(took))}
}

// watched creates paying accounts, and wallets with one watch each.
func (s *service) watched(network *devclient.Client) (payers, wallets, watches []string) {
	s.Helper()
	payers, wallets = make([]string, closeWallets), make([]string, closeWallets)
	errs := make([]error, 2*closeWallets)
	var all sync.WaitGroup
	for i := range closeWallets {
		all.Go(func() { wallets[i], _, errs[2*i] = network.CreateAccount(s.Context()) })
		all.Go(func() { _, payers[i], errs[2*i+1] = network.CreateAccount(s.Context()) })
	}
	all.Wait()
	must(s, errors.Join(errs...))
	// Wait, because a watch would match the payment that creates its wallet.
	<-time.After(2 * closeEvery)
	for i, wallet := range wallets {
		made, err := s.api().CreateWatch(s.Context(), client.WatchCreate{
			WalletAddress: wallet,
			EndpointID:    s.payments.endpoints[i],
			Assets:        []client.Asset{{Code: "XLM"}},
		})
		must(s, err)
		watches = append(watches, made.ID)
	}
	<-time.After(2 * closeEvery)
	return payers, wallets, watches
}

// pay makes payments at a constant rate, to one wallet after another.
func (s *service) pay(network *devclient.Client, payers, wallets []string) []devclient.Payment {
	s.Helper()
	made := make([]devclient.Payment, int(closeRate*closeTime.Seconds()))
	errs := make([]error, len(made))
	var all sync.WaitGroup
	began := time.Now()
	for n := range made {
		<-time.After(time.Until(began.Add(time.Duration(float64(n) / closeRate * float64(time.Second)))))
		all.Go(func() {
			made[n], errs[n] = network.Pay(s.Context(), devclient.PayRequest{
				From:   payers[n%closeWallets],
				To:     wallets[n%closeWallets],
				Amount: "0.1",
			})
		})
	}
	all.Wait()
	must(s, errors.Join(errs...))
	return made
}

// ledgers contains the last moment at which each ledger was not readable yet. A duration measured
// from there is never too short.
type ledgers struct {
	at   map[uint32]time.Time
	last atomic.Uint32 // the ledger being waited for
}

// look queries the latest ledger every 2 ms, and less often while no ledger can have closed.
func (l *ledgers) look(ctx context.Context, url string) error {
	rpc := rpcclient.NewClient(url, http.DefaultClient)
	defer rpc.Close()
	latest, without := uint32(0), time.Now()
	for {
		asked, wait := time.Now(), 2*time.Millisecond
		now, err := rpc.GetLatestLedger(ctx)
		if err != nil {
			return err
		}
		if now.Sequence > latest {
			if latest == 0 {
				latest = now.Sequence - 1
			}
			for n := latest + 1; n <= now.Sequence; n++ {
				l.at[n] = without
			}
			latest, wait = now.Sequence, closeEvery/2
		}
		without = asked
		if latest >= l.last.Load() {
			return nil
		}
		<-time.After(wait)
	}
}
