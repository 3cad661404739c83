package sim

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// chain is the ledger network. The first ledger has sequence 1.
type chain struct {
	world   *World
	ledgers []domain.Ledger
	drawn   map[string]draw.Payment // by payment id
}

var (
	issuer = address("issuer")
	assets = []domain.Asset{domain.NativeAsset(), {Code: "USDC", Issuer: issuer}}
)

func address(name string) string { return "G" + domain.DeriveID("", name) }

func wallet(i int) string { return address(fmt.Sprint("wallet", i)) }

func payer(i int) string { return address(fmt.Sprint("sender", i)) }

const wallets = 4

const networkName = "the network of the simulation"

func newChain(w *World) *chain {
	c := &chain{world: w, drawn: make(map[string]draw.Payment)}
	c.close(nil) // the first ledger has no payments
	return c
}

func (c *chain) close(payments []domain.Payment) {
	sequence := uint32(len(c.ledgers) + 1)
	c.ledgers = append(c.ledgers, domain.Ledger{
		Sequence:       sequence,
		Hash:           hashOf(sequence),
		ClosedAtMillis: c.world.wall(),
		Payments:       payments,
		Transactions:   len(payments),
	})
}

// payments returns the payments of ledgers from to to, in order.
func (c *chain) payments(from, to uint32) (all []domain.Payment) {
	for _, l := range c.ledgers[from-1 : to] {
		all = append(all, l.Payments...)
	}
	return all
}

func hashOf(sequence uint32) string { return fmt.Sprintf("%064x", sequence) }

func (c *chain) latest() uint32 { return uint32(len(c.ledgers)) }

func (w *World) closeLedger() bool {
	sequence := w.chain.latest() + 1
	var payments []domain.Payment
	for i := range w.rnd.IntN(5) {
		drawn := draw.Payment{Payer: w.rnd.IntN(draw.Payers), Memo: w.draw().Memo()}
		if asset := w.rnd.IntN(2); asset > 0 {
			drawn.Asset = assets[asset].Code
		}
		if !w.chance(0.05) {
			drawn.Stroops = w.draw().Amount()
		}
		p := domain.Payment{
			ID:             fmt.Sprintf("%d-%d", sequence, i),
			TxHash:         hashOf(sequence),
			Ledger:         sequence,
			ClosedAtMillis: w.wall(),
			Operation:      "payment",
			From:           payer(drawn.Payer),
			To:             wallet(w.rnd.IntN(wallets)),
			Memo:           memoOf(drawn.Memo),
			Asset:          assets[min(len(drawn.Asset), 1)],
			AmountStroops:  drawn.Stroops,
		}
		if w.chance(0.05) {
			p.From = p.To
		}
		w.chain.drawn[p.ID] = drawn
		payments = append(payments, p)
	}
	w.chain.close(payments)
	w.note("ledgers", "ledger %d closes with %d payments", sequence, len(payments))
	w.checks.judged.closed(sequence)
	return true
}

type source struct {
	follower *followerProcess
	r        *routine
}

func (s source) Check(context.Context) error { return nil }

func (s source) Latest(context.Context) (uint32, error) {
	return s.follower.world.chain.latest(), s.r.wait(nil)
}

func (s source) Continue(sequence uint32, hash string) {
	if sequence > 0 && hash != hashOf(sequence) {
		s.follower.world.violate("the follower goes on from ledger %d as %s", sequence, hash)
	}
}

// lies are errors that a source may return although its next response is right.
var lies = []domain.LedgerError{
	domain.ErrForked, domain.ErrBehindRetention, domain.ErrWrongNetwork, domain.ErrUnreadable,
}

// Next waits for a ledger, and also returns some of the following ones. The page belongs to the
// follower, which empties it. Occasionally, Next returns something else: an error that looks
// permanent, or a different ledger.
func (s source) Next(_ context.Context, sequence uint32) ([]domain.Ledger, error) {
	c := s.follower.world.chain
	if err := s.r.wait(func() bool { return c.latest() >= sequence }); err != nil {
		return nil, err
	}
	if s.r == &s.follower.live && c.world.fault(0.02) {
		c.world.count("lies of the source of ledgers")
		s.r.lied = true
		if why, is := pick(c.world, lies); is && c.world.chance(0.7) || c.latest() == sequence {
			return nil, why
		}
		sequence++
	}
	last := min(c.latest(), sequence+uint32(c.world.rnd.IntN(3)))
	return slices.Clone(c.ledgers[sequence-1 : last]), nil
}

func memoOf(m *draw.Memo) domain.Memo {
	if m == nil {
		return domain.Memo{}
	}
	raw := []byte(m.Value)
	if m.Type == "hash" || m.Type == "return" {
		raw, _ = hex.DecodeString(m.Value) // it is hex
	}
	return domain.Memo{Type: domain.MemoType(m.Type), Raw: raw}
}
