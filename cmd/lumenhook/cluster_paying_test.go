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

// payment is one that stands in a closed ledger.
type payment struct {
	id     string
	ledger uint32
	wallet int
	paid   time.Time // at the latest: when it was known that its ledger had closed
}

// paying makes payments to one wallet after another, at a pace that others set: n at
// least, and until all that was to happen meanwhile is over.
type paying struct {
	t       *testing.T
	client  *devclient.Client
	n       int
	payers  []string
	wallets []string
	every   atomic.Int64 // nanoseconds between two
	tickets chan int
	calm    atomic.Bool // nothing happens any more
	over    sync.WaitGroup

	mu   sync.Mutex
	done []payment
}

// newPaying has n payments to make.
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

// start begins to pay.
func (p *paying) start() {
	p.over.Go(p.hand)
	for range payersAtOnce {
		p.over.Go(func() { p.work(p.t.Context()) })
	}
}

// hand hands out tickets, each for a payment.
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

// pace spreads what is left over a time. Each wallet is paid every few seconds, however
// little is left.
func (p *paying) pace(over time.Duration) {
	left := max(1, p.n-len(p.made()))
	p.every.Store(int64(min(over/time.Duration(left), slowest)))
}

// finish makes what is left at once, and waits for it.
func (p *paying) finish() {
	p.every.Store(int64(time.Millisecond))
	p.calm.Store(true)
	p.over.Wait()
}

// made are the payments that there are.
func (p *paying) made() []payment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[:len(p.done):len(p.done)]
}

// since are the payments that were made after a moment.
func (p *paying) since(at time.Time) []payment {
	all := p.made()
	i := len(all)
	for i > 0 && all[i-1].paid.After(at) {
		i--
	}
	return all[i:]
}

// last is the ledger of the last payment.
func (p *paying) last() (sequence uint32) {
	for _, one := range p.made() {
		sequence = max(sequence, one.ledger)
	}
	return sequence
}
