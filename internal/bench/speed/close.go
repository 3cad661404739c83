package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/devnet/devclient"
)

const (
	closeWallets   = 8
	closeRate      = 20.0  // payments a second
	aimClose       = 100.0 // milliseconds
	askLedgerEvery = 2 * time.Millisecond
)

// network is what a load of payments needs of a development network.
type network struct {
	RPC       string   `json:"rpc,omitempty"`
	Friendbot string   `json:"friendbot,omitempty"`
	Payers    []string `json:"payers,omitempty"`  // secret keys
	Wallets   []string `json:"wallets,omitempty"` // addresses, each of which has a watch
	Watches   []string `json:"watches,omitempty"`
}

// closeSteps are one: payments on the development network of `lumenhook run`.
func (l *lab) closeSteps() []step {
	return []step{{
		name:  "close",
		takes: l.opt.CloseTime + 22*time.Second,
		run: func(ctx context.Context, _ int) (got record, err error) {
			s, err := l.serve(ctx, serving{
				endpoints: closeWallets,
				args:      []string{"--ledger-interval", l.opt.ledgers.String()},
			})
			if err != nil {
				return got, err
			}
			took, err := l.closeBy(ctx, s)
			if err := errors.Join(err, s.stop()); err != nil {
				return got, err
			}
			const name = "a ledger's close to arrival"
			got.Figures = []figure{
				{
					Row:   name + ", p99",
					Unit:  "ms",
					Value: took.P99,
					Aim:   atMost(ofFigure, aimClose, "ms"),
				},
				{Row: name + ", p50", Unit: "ms", Value: took.P50, Aside: true},
				{Row: "payments of which that is", Value: float64(took.N), Aside: true},
			}
			return got, nil
		},
	}}
}

// closeBy has payments made, and returns the times from the last moment at which the ledger of
// each could not be read yet to its webhook's arrival.
func (l *lab) closeBy(ctx context.Context, s *service) (took times, err error) {
	n, err := l.wallets(ctx, s)
	if err != nil {
		return took, err
	}
	if err := l.arrived().expect(ctx, 0); err != nil {
		return took, err
	}
	t := task{
		Kind:    loadPays,
		Network: n,
		Ledgers: l.opt.ledgers,
		Rate:    closeRate,
		Time:    l.opt.CloseTime,
		Sent:    filepath.Join(l.dir, "paid-"+strconv.Itoa(l.children)),
	}
	done, err := l.load(ctx, t)
	if err != nil {
		return took, err
	}
	if _, err := l.arrived().await(ctx, done.n); err != nil {
		return took, err
	}
	text, err := os.ReadFile(t.Sent)
	if err != nil {
		return took, err
	}
	var seen map[string]int64
	if err := json.Unmarshal(text, &seen); err != nil {
		return took, err
	}
	arrivals, err := l.arrived().arrivals(ctx)
	if err != nil {
		return took, err
	}
	return timesSince(seen, arrivals)
}

// timesSince returns the times of events from what was seen to arrival.
func timesSince(seen, arrivals map[string]int64) (took times, err error) {
	var list []float64
	for id, at := range seen {
		arrived, is := arrivals[id]
		if !is {
			return took, fmt.Errorf("event %s did not arrive", id)
		}
		list = append(list, float64(arrived-at)/1e6)
	}
	return timesOfAll(list)
}

// wallets makes payers, and wallets with a watch each.
func (l *lab) wallets(ctx context.Context, s *service) (n network, err error) {
	n = network{
		RPC:       s.run.Stellar.RPCURL,
		Friendbot: s.run.Stellar.FriendbotURL,
		Payers:    make([]string, closeWallets),
		Wallets:   make([]string, closeWallets),
	}
	pays, err := devclient.New(n.RPC, n.Friendbot)
	if err != nil {
		return n, err
	}
	defer pays.Close()
	errs := make([]error, 2*closeWallets)
	var all sync.WaitGroup
	for i := range closeWallets {
		all.Go(func() { n.Wallets[i], _, errs[2*i] = pays.CreateAccount(ctx) })
		all.Go(func() { _, n.Payers[i], errs[2*i+1] = pays.CreateAccount(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return n, err
	}
	// A watch would see its wallet's first lumens, which are a payment.
	if err := rest(ctx, 2*l.opt.ledgers); err != nil {
		return n, err
	}
	api, err := s.api()
	if err != nil {
		return n, err
	}
	for i, wallet := range n.Wallets {
		made, err := api.CreateWatch(ctx, client.WatchCreate{
			WalletAddress: wallet,
			EndpointID:    s.payments.Endpoints[i],
			Assets:        []client.Asset{{Code: "XLM"}},
		})
		if err != nil {
			return n, fmt.Errorf("creating a watch: %w", err)
		}
		n.Watches = append(n.Watches, made.ID)
	}
	return n, rest(ctx, 2*l.opt.ledgers)
}

// pays makes payments at a rate, and writes down when the ledger of each could not be read yet
// for the last time, by the event that tells of it.
func (t *task) pays(ctx context.Context) error {
	pays, err := devclient.New(t.Network.RPC, t.Network.Friendbot)
	if err != nil {
		return err
	}
	defer pays.Close()
	looking, stop := context.WithCancel(ctx)
	defer stop()
	closes := &closes{at: make(map[uint32]int64)}
	closes.last.Store(math.MaxUint32)
	ended := make(chan error, 1)
	go func() { ended <- closes.look(looking, t.Network.RPC, t.Ledgers) }()
	made, err := t.payAll(ctx, pays)
	if err != nil {
		return err
	}
	closes.last.Store(slices.Max(slices.Collect(maps.Values(made))))
	if err := <-ended; err != nil {
		return err
	}
	seen := make(map[string]int64)
	for event, ledger := range made {
		at, is := closes.at[ledger]
		if !is {
			return fmt.Errorf("nobody saw ledger %d close", ledger)
		}
		seen[event] = at
	}
	text, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.Sent, text, 0o600); err != nil {
		return err
	}
	report(event{Kind: eventDone, N: len(seen)})
	return nil
}

// payAll makes all payments, and returns the ledger of each by its event.
func (t *task) payAll(ctx context.Context, pays *devclient.Client) (map[string]uint32, error) {
	count := int(t.Rate * t.Time.Seconds())
	made, errs := make([]devclient.Payment, count), make([]error, count)
	var all sync.WaitGroup
	report(event{Kind: eventBegan})
	began := time.Now()
	for n := range count {
		due := began.Add(time.Duration(float64(n) / t.Rate * float64(time.Second)))
		if err := awaitTime(ctx, due); err != nil {
			return nil, err
		}
		i := n % len(t.Network.Wallets)
		all.Go(func() {
			made[n], errs[n] = pays.Pay(ctx, devclient.PayRequest{
				From:   t.Network.Payers[i],
				To:     t.Network.Wallets[i],
				Amount: "0.1",
			})
		})
	}
	all.Wait()
	by := make(map[string]uint32, count)
	for n, p := range made {
		by[domain.EventID(t.Network.Watches[n%len(t.Network.Watches)], p.ID)] = p.Ledger
	}
	return by, errors.Join(errs...)
}

// closes are when ledgers could not be read yet for the last time, Unix nanoseconds: they
// closed later, so that what is counted from there is never too short.
type closes struct {
	at   map[uint32]int64
	last atomic.Uint32 // the one that is waited for
}

// look asks for the latest ledger again and again, until the last that matters: seldom while
// none can have closed.
func (c *closes) look(ctx context.Context, url string, every time.Duration) error {
	rpc := rpcclient.NewClient(url, http.DefaultClient)
	defer rpc.Close()
	latest, without := uint32(0), time.Now()
	for {
		asked, wait := time.Now(), askLedgerEvery
		now, err := rpc.GetLatestLedger(ctx)
		if err != nil {
			return err
		}
		if now.Sequence > latest {
			if latest == 0 {
				latest = now.Sequence - 1
			}
			for n := latest + 1; n <= now.Sequence; n++ {
				c.at[n] = without.UnixNano()
			}
			latest, wait = now.Sequence, every/2
		}
		without = asked
		if latest >= c.last.Load() {
			return nil
		}
		if err := rest(ctx, wait); err != nil {
			return err
		}
	}
}
