package follower

import (
	"context"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// Claims has the engine answer whether payments are the ones that their watches are for.
type Claims interface {
	// SubmitAll submits commands, and returns their results in the same order once all are
	// answered.
	SubmitAll(ctx context.Context, all []domain.Command) ([]domain.Result, error)
}

// claimRounds bounds how often a ledger's payments are claimed: again only for watches that
// were changed meanwhile.
const claimRounds = 8

// errChanges means that a watch was changed between each judgement and its claim.
var errChanges = errors.New("a watch for one payment is changed again and again")

// claiming returns, for each match, its watch as it is once it was asked whether the payment is
// the one; zero if there is no such watch any more.
type claiming func([]domain.Match) ([]domain.Watch, error)

// claim has the watches for one payment that match record which payment that is, the first of
// the ledger for each, and leaves out the other matches. The watch is the judge: a payment that
// another follower, or a backfill, had recorded before stays the one. Payments of one watch are
// claimed one after another, those of different watches at once.
func (s *matched) claim(claims claiming) error {
	for range claimRounds {
		var first []domain.Match
		asked := make(map[string]bool)
		for _, m := range s.matches {
			if m.Watch.MustClaim() && !asked[m.Watch.ID] {
				asked[m.Watch.ID] = true
				first = append(first, m)
			}
		}
		if len(first) == 0 {
			return nil
		}
		answers, err := claims(first)
		if err != nil {
			return fmt.Errorf("follower: asking which payment a watch is for: %w", err)
		}
		now := make(map[string]domain.Watch, len(answers))
		for i, w := range answers {
			now[first[i].Watch.ID] = w
		}
		var left []domain.Match
		for _, m := range s.matches {
			if asked[m.Watch.ID] {
				var is bool
				if m, is = domain.MatchPayment(now[m.Watch.ID], m.Payment); !is {
					continue
				}
			}
			left = append(left, m)
		}
		s.matches = left
	}
	return errChanges
}

// claimCommand asks a watch whether a payment is the one. Its id is derived from both and the
// settings by which the payment was judged, so it may be repeated.
func claimCommand(m domain.Match, nowMillis int64) domain.Command {
	w := m.Watch
	return domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "fulfil", w.ID, m.Payment.ID,
			decimal(w.Revision)),
		AccountID:      w.AccountID,
		IssuedAtMillis: nowMillis,
		Body: domain.RecordCoverage{
			WatchID:    w.ID,
			Fulfils:    domain.FulfilledBy(m.Payment),
			IfRevision: w.Revision,
		},
	}
}

// claims is how payments of a live ledger are claimed. A watch that was changed meanwhile is
// judged as it is now, and its payment claimed again.
func (r *Reading) claims(ctx context.Context) claiming {
	return func(first []domain.Match) ([]domain.Watch, error) {
		var asked []domain.Command
		for _, m := range first {
			asked = append(asked, claimCommand(m, r.config.Now().UnixMilli()))
		}
		results, err := r.config.Claims.SubmitAll(ctx, asked)
		if err != nil {
			return nil, err
		}
		var watches []domain.Watch
		for _, result := range results {
			watches = append(watches, watchOf(result))
		}
		return watches, nil
	}
}

// watchOf returns the watch of an answer; zero if it was refused: the watch was deleted.
func watchOf(r domain.Result) (w domain.Watch) {
	if r.Answer.Rejection == nil && r.Answer.Watch != nil {
		w = *r.Answer.Watch
	}
	return w
}

// errUnpinned means that a watch was changed since a part of its backfill pinned it. The part is
// ended as far as it was read, and the next one pins the watch as it is.
var errUnpinned = errors.New("the watch was changed since the part of its backfill began")

// claims is how a payment of a past ledger is claimed: for the watch as a part has pinned it.
func (b *Backfiller) claims(ctx context.Context) claiming {
	return func(first []domain.Match) ([]domain.Watch, error) {
		w := first[0].Watch // a backfill is of one watch
		result, err := b.Commands.Submit(ctx, claimCommand(first[0], b.config.Now().UnixMilli()))
		if err != nil {
			return nil, err
		}
		now := watchOf(result)
		switch {
		case !now.Exists():
			return []domain.Watch{{}}, nil
		case now.MustClaim():
			return nil, errUnpinned
		}
		w.Fulfilled = now.Fulfilled
		return []domain.Watch{w}, nil
	}
}
