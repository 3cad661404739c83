//go:build kafka

package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
)

const (
	payersAtOnce = 256
	payerCount   = 4
	slowest      = 300 * time.Millisecond // between two payments
)

type payment struct {
	id     string
	ledger uint32
	wallet int
	paid   time.Time // upper bound: when its ledger was known to have closed
}

// paying makes payments to the wallets in turn, at the pace that others set. It makes at least n,
// and continues until finish is called.
type paying struct {
	t       *testing.T
	client  *devclient.Client
	n       int
	payers  []string
	wallets []string
	every   atomic.Int64 // nanoseconds between two payments
	tickets chan int
	calm    atomic.Bool // set when nothing more will happen to the site
	over    sync.WaitGroup

	mu   sync.Mutex
	done []payment
}

func newPaying(t *testing.T, c *devclient.Client, wallets []string, n int) *paying {
	t.Helper()
	p := &paying{t: t, client: c, n: n, wallets: wallets, tickets: make(chan int)}
	for range payerCount {
		_, secret, err := c.CreateAccount(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.payers = append(p.payers, secret)
	}
	return p
}

func (p *paying) start() {
	p.over.Go(p.hand)
	for range payersAtOnce {
		p.over.Go(func() { p.work(p.t.Context()) })
	}
}

func (p *paying) hand() {
	defer close(p.tickets)
	for i := 0; i < p.n || !p.calm.Load(); i++ {
		timer := time.NewTimer(time.Duration(p.every.Load()))
		select {
		case <-p.t.Context().Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		select {
		case <-p.t.Context().Done():
			return
		case p.tickets <- i:
		}
	}
}

func (p *paying) work(ctx context.Context) {
	for i := range p.tickets {
		wallet := i % len(p.wallets)
		made, err := p.client.Pay(ctx, devclient.PayRequest{
			From:   p.payers[i/len(p.wallets)%len(p.payers)],
			To:     p.wallets[wallet],
			Amount: "0.1",
		})
		if err != nil {
			if ctx.Err() == nil {
				p.t.Error(err)
			}
			return
		}
		p.mu.Lock()
		p.done = append(p.done, payment{made.ID, made.Ledger, wallet, time.Now()})
		p.mu.Unlock()
	}
}

// pace spreads the remaining payments over a duration. Even if few remain, each wallet is paid
// every few seconds.
func (p *paying) pace(over time.Duration) {
	left := max(1, p.n-len(p.made()))
	p.every.Store(int64(min(over/time.Duration(left), slowest)))
}

// finish makes the remaining payments at full speed and waits for them.
func (p *paying) finish() {
	p.every.Store(int64(time.Millisecond))
	p.calm.Store(true)
	p.over.Wait()
}

func (p *paying) made() []payment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[:len(p.done):len(p.done)]
}

func (p *paying) since(at time.Time) []payment {
	all := p.made()
	i := len(all)
	for i > 0 && all[i-1].paid.After(at) {
		i--
	}
	return all[i:]
}

func (p *paying) last() (sequence uint32) {
	for _, one := range p.made() {
		sequence = max(sequence, one.ledger)
	}
	return sequence
}
