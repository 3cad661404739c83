package follower

import (
	"context"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// Claims asks the engine whether payments are the ones that their watches expect.
type Claims interface {
	// SubmitAll submits commands and returns their results in the same order.
	SubmitAll(ctx context.Context, all []domain.Command) ([]domain.Result, error)
}

// claimRounds bounds how often a ledger's payments are claimed if their watches keep changing.
const claimRounds = 8

// errChanges means that a watch changed each time between its check and its claim.
var errChanges = errors.New("a watch for one payment keeps changing")

// claims are the callbacks for claiming a ledger's matches.
type claims struct {
	// ask returns each watch after its claim, or the zero value if it no longer exists.
	ask func([]claim) ([]domain.Watch, error)
	// missing reports whether the watch's endpoint is deleted.
	missing func(domain.Watch) (bool, error)
	ledger  uint32
}

// claim is a match that the engine must confirm: that the payment is the one that its watch expects
// or, if missed, that the watch still has no endpoint.
type claim struct {
	domain.Match
	missed bool
}

// claim has each watch for one payment record its payment, the first of the ledger, and each watch
// without an endpoint record that it misses this ledger. It drops all other matches. The watch
// decides: a payment that another follower or a backfill recorded earlier stays. Payments of one
// watch are claimed one by one, and those of different watches in parallel.
func (s *matched) claim(by claims) error {
	for range claimRounds {
		var first []claim
		asked := make(map[string]claim)
		for _, m := range s.matches {
			missed, err := by.missing(m.Watch)
			if err != nil {
				return err
			}
			// A ledger is missed completely. If a part of it was appended, the endpoint was deleted after
			// the payment, and the event is CANCELLED.
			missed = missed && !s.already.watches[m.Watch.ID]
			if _, is := asked[m.Watch.ID]; !is && (missed || m.Watch.MustClaim()) {
				asked[m.Watch.ID] = claim{m, missed}
				first = append(first, claim{m, missed})
			}
		}
		if len(first) == 0 {
			return nil
		}
		answers, err := by.ask(first)
		if err != nil {
			return fmt.Errorf("follower: claiming the ledger's payments: %w", err)
		}
		now := make(map[string]domain.Watch, len(answers))
		for i, w := range answers {
			now[first[i].Watch.ID] = w
		}
		var left []domain.Match
		for _, m := range s.matches {
			if c, is := asked[m.Watch.ID]; is {
				w := now[m.Watch.ID]
				var matches bool
				m, matches = domain.MatchPayment(w, m.Payment)
				if !matches || c.missed && (w.LiveSince == 0 || w.LiveSince > by.ledger) {
					continue
				}
			}
			left = append(left, m)
		}
		s.matches = left
	}
	return errChanges
}

// command returns the command of a claim. It may be repeated, because its id depends on the watch,
// the payment and the settings against which the payment was checked.
func (c claim) command(nowMillis int64) domain.Command {
	w := c.Watch
	kind, body := "fulfil", domain.RecordCoverage{WatchID: w.ID, IfRevision: w.Revision}
	if c.missed {
		kind, body.Missed = "missed", c.Payment.Ledger
	} else {
		body.Fulfils = domain.FulfilledBy(c.Payment)
	}
	return domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, kind, w.ID, c.Payment.ID,
			decimal(w.Revision)),
		AccountID:      w.AccountID,
		IssuedAtMillis: nowMillis,
		Body:           body,
	}
}

func (r *Reading) missing(w domain.Watch) (bool, error) {
	e, _, err := r.config.Watches.Endpoint(w.EndpointID)
	return e.Deleted(), err
}

func (r *Reading) claim(ctx context.Context) func([]claim) ([]domain.Watch, error) {
	return func(first []claim) ([]domain.Watch, error) {
		var asked []domain.Command
		for _, c := range first {
			asked = append(asked, c.command(r.config.Now().UnixMilli()))
		}
		results, err := r.config.Claims.SubmitAll(ctx, asked)
		if err != nil {
			return nil, err
		}
		var watches []domain.Watch
		for _, result := range results {
			w := watchOf(result)
			if w.MissedSince != 0 && w.LiveSince == 0 {
				delete(r.pending, w.ID) // admitted again once it has an endpoint
			}
			watches = append(watches, w)
		}
		return watches, nil
	}
}

func watchOf(r domain.Result) (w domain.Watch) {
	if r.Answer.Rejection == nil && r.Answer.Watch != nil {
		w = *r.Answer.Watch
	}
	return w
}

// errUnpinned means that a watch has changed since a part of its backfill pinned it. The part ends
// there, and the next one pins the new watch.
var errUnpinned = errors.New("the watch has changed since the part of its backfill began")

// claims returns the callbacks for a past ledger, which use the pinned watch.
func (b *Backfiller) claims(ctx context.Context) claims {
	ask := func(first []claim) ([]domain.Watch, error) {
		w := first[0].Watch // a backfill has one watch
		result, err := b.Commands.Submit(ctx, first[0].command(b.config.Now().UnixMilli()))
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
	return claims{ask: ask, missing: func(domain.Watch) (bool, error) { return false, nil }}
}
