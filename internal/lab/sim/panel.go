package sim

import (
	"context"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/quorum"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// panel consists of three sources, two of which must agree. One of them lies, even without faults.
// The others may be down, silent, or wait for a ledger that has already closed. The product's own
// quorum.Core decides.
type panel struct {
	source
	core  *quorum.Core
	due   uint32
	wake  int64  // when to query the core again, by the steady clock
	looks []look // in flight
}

type look struct {
	quorum.Look
	at   int64 // time of the response, by the steady clock
	page []ledger.Raw
	err  error
}

func (f *followerProcess) sourcesOf(r *routine) follower.Source {
	one := source{f, r}
	if !f.world.setup.quorum {
		return one
	}
	p := &panel{source: one}
	var err error
	p.core, err = quorum.NewCore(quorum.Config{
		Members: []quorum.Member{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Need:    2,
		Now:     func() time.Time { return time.UnixMilli(f.world.steady) },
		Jitter:  retry.Seeded(f.world.seed),
	})
	if err != nil {
		f.world.violate("sources: %v", err)
	}
	r.panel = p
	return p
}

func (p *panel) Continue(sequence uint32, hash string) {
	p.source.Continue(sequence, hash)
	p.core.Continue(sequence, hash)
}

// Next waits until two sources agree. The lying source must neither be accepted nor block the
// others.
func (p *panel) Next(_ context.Context, sequence uint32) ([]domain.Ledger, error) {
	w := p.follower.world
	for p.due = sequence; ; {
		step := p.core.Step(sequence)
		if step.Err != nil {
			w.violate("one source of three ends reading: %v", step.Err)
		}
		if len(step.Page) > 0 {
			return p.read(step.Page), nil
		}
		for _, l := range step.Ask {
			p.looks = append(p.looks, p.answer(l))
		}
		p.wake = w.steady + max(1, step.Wait.Milliseconds())
		if err := p.r.wait(func() bool { return p.dueAt() <= w.steady }); err != nil {
			return nil, err
		}
		p.looks = slices.DeleteFunc(p.looks, func(l look) bool {
			if l.at > w.steady {
				return false
			}
			p.core.Take(sequence, l.Look, l.page, l.err)
			return true
		})
	}
}

// dueAt returns when the next response arrives, or when to query the core again.
func (p *panel) dueAt() int64 {
	at := p.wake
	for _, l := range p.looks {
		at = min(at, l.at)
	}
	return at
}

func (p *panel) read(page []ledger.Raw) (all []domain.Ledger) {
	c := p.follower.world.chain
	for _, l := range page {
		if l.Hash != hashOf(l.Sequence) || l.Sequence > c.latest() {
			c.world.violate("one source of three is believed: ledger %d is %s", l.Sequence, l.Hash)
		}
		all = append(all, c.ledgers[l.Sequence-1])
	}
	return all
}

func (p *panel) answer(asked quorum.Look) look {
	w := p.follower.world
	l := look{Look: asked, at: w.steady}
	if w.chance(0.3) {
		l.at += w.rnd.Int64N(200)
	}
	last := min(w.chain.latest(), asked.Sequence+uint32(w.rnd.IntN(3)))
	hash := hashOf
	switch lying := asked.Member == int(w.seed/8%3) && w.chance(0.8); {
	case lying && w.chance(0.5):
		w.count("one of three sources: fails for good")
		l.err = lies[w.rnd.IntN(len(lies))]
	case lying: // possibly a ledger that has not closed
		w.count("one of three sources: gives another ledger")
		last = asked.Sequence + uint32(w.rnd.IntN(3))
		hash = func(sequence uint32) string { return hashOf(sequence + 1) }
	case w.fault(0.1):
		l.err = errLog
	case w.fault(0.1):
		w.count("one of three sources: is silent")
		l.at += 30 * secondMillis
	case w.fault(0.3):
		w.count("one of three sources: lags")
		last = asked.Sequence - 1
	}
	for sequence := asked.Sequence; l.err == nil && sequence <= last; sequence++ {
		l.page = append(l.page, ledger.Raw{Sequence: sequence, Hash: hash(sequence)})
	}
	return l
}
