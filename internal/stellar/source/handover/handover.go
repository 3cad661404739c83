// Package handover reads ledgers from two sources as if they were one: what the
// near one (Stellar RPC) no longer keeps comes from the far one (a lake), and
// following goes over from the far to the near one without a gap.
//
// It hides which of the two is asked. Each source holds every ledger against the
// one before it, wherever that came from, so the change cannot go over to another
// chain.
package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// lookAgainLedgers is how many ledgers are read from the far source before the
// near one is asked again whether it has the next. It keeps weeks of ledgers.
const lookAgainLedgers = 512

const (
	waitFirst = 100 * time.Millisecond
	waitLast  = 15 * time.Second
)

// Source is a source.Source over two. It is for one goroutine.
type Source struct {
	near, far source.Source
	log       *slog.Logger
	fromFar   uint32 // until this sequence the far source is read without asking the near one
	reading   string // as last logged
}

// New joins two sources. log may be nil.
func New(near, far source.Source, log *slog.Logger) *Source {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{near: near, far: far, log: log}
}

// Check asks both. The far source may be away as long as the near one is there.
func (s *Source) Check(ctx context.Context) error {
	if err := s.near.Check(ctx); err != nil {
		return err
	}
	if err := s.far.Check(ctx); errors.Is(err, domain.ErrWrongNetwork) {
		return err
	} else if err != nil {
		s.log.Warn("the far source of ledgers cannot be used now", "err", err)
	}
	return nil
}

// Latest is the near source's.
func (s *Source) Latest(ctx context.Context) (uint32, error) { return s.near.Latest(ctx) }

// Continue tells both which ledger was read last.
func (s *Source) Continue(sequence uint32, hash string) {
	s.near.Continue(sequence, hash)
	s.far.Continue(sequence, hash)
	s.fromFar = 0
}

// Next reads from the near source what it has, and the rest from the far one.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if sequence >= s.fromFar {
		page, err := s.near.Next(ctx, sequence)
		if !errors.Is(err, domain.ErrBehindRetention) {
			return s.given("near", s.far, page, err)
		}
		latest, err := s.reach(ctx, sequence, err)
		if err != nil {
			return nil, err
		}
		s.fromFar = min(sequence+lookAgainLedgers, latest+1)
	}
	page, err := s.far.Next(ctx, sequence)
	return s.given("far", s.near, page, err)
}

// reach asks how far the far source goes, until it answers. If it will only have
// some day what the near one no longer has, waiting for it would be waiting for
// something that nobody promised.
func (s *Source) reach(
	ctx context.Context, sequence uint32, behind error,
) (latest uint32, err error) {
	latest, err = retry.Value(ctx, retry.Policy{
		First: waitFirst,
		Last:  waitLast,
		If:    func(err error) bool { return !source.IsPermanent(err) },
		OnFailure: retry.Warn(s.log,
			"the far source of ledgers cannot be used, and is needed; trying again until it can",
			"ledger", sequence),
	}, func() (uint32, error) { return s.far.Latest(ctx) })
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, fmt.Errorf("%w; and then: %w", behind, err)
	case latest < sequence:
		return 0, fmt.Errorf("%w; and the other source reaches to ledger %d only", behind, latest)
	}
	return latest, nil
}

// given tells the other source how far reading has come.
func (s *Source) given(
	name string, other source.Source, page []ledger.Raw, err error,
) ([]ledger.Raw, error) {
	if err != nil || len(page) == 0 {
		return page, err
	}
	if s.reading != name {
		s.reading = name
		s.log.Info("ledgers come from the "+name+" source", "ledger", page[0].Sequence)
	}
	last := page[len(page)-1]
	other.Continue(last.Sequence, last.Hash)
	return page, nil
}
