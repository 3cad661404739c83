package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// chain is the ledger network: closed ledgers, 1 is the first.
type chain struct {
	world   *World
	ledgers []domain.Ledger
}

var (
	issuer = address("issuer")
	assets = []domain.Asset{domain.NativeAsset(), {Code: "USDC", Issuer: issuer}}
	memos  = []domain.Memo{
		{}, {}, {Type: domain.MemoText, Raw: []byte("invoice 7")},
		{Type: domain.MemoID, Raw: []byte("42")},
	}
)

func address(name string) string { return "G" + domain.DeriveID("", name) }

func wallet(i int) string { return address(fmt.Sprint("wallet", i)) }

const wallets = 4

const networkName = "the network of the simulation"

func newChain(w *World) *chain {
	c := &chain{world: w}
	c.close(nil) // the first ledger has none
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

func hashOf(sequence uint32) string { return fmt.Sprintf("%064x", sequence) }

func (c *chain) latest() uint32 { return uint32(len(c.ledgers)) }

// closeLedger closes a ledger with a few payments.
func (w *World) closeLedger() bool {
	sequence := w.chain.latest() + 1
	var payments []domain.Payment
	for i := range w.rnd.IntN(5) {
		p := domain.Payment{
			ID:             fmt.Sprintf("%d-%d", sequence, i),
			TxHash:         hashOf(sequence),
			Ledger:         sequence,
			ClosedAtMillis: w.wall(),
			Operation:      "payment",
			From:           address(fmt.Sprint("sender", w.rnd.IntN(3))),
			To:             wallet(w.rnd.IntN(wallets)),
			Memo:           memos[w.rnd.IntN(len(memos))],
			Asset:          assets[w.rnd.IntN(len(assets))],
			AmountStroops:  w.rnd.Int64N(20) * domain.StroopsPerUnit,
		}
		if w.chance(0.05) {
			p.From = p.To
		}
		payments = append(payments, p)
	}
	w.chain.close(payments)
	w.note("ledgers", "ledger %d closes with %d payments", sequence, len(payments))
	w.checks.judged.closed(sequence)
	return true
}

// source is the chain as one follower reads it.
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

// lies are errors of a source that the next answer may not repeat.
var lies = []domain.LedgerError{
	domain.ErrForked, domain.ErrBehindRetention, domain.ErrWrongNetwork, domain.ErrUnreadable,
}

// Next waits for a ledger, and returns some of those after it too. The page is the follower's,
// which empties it. Now and then it is told something else: an error that sounds final, or
// another ledger than is due.
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
