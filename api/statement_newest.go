package api

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const (
	// countedMax bounds how long a statement waits for a recorded ledger to count.
	countedMax = 2 * time.Second
	// countedPoll is the interval between reads of the follower's cursor.
	countedPoll = 20 * time.Millisecond
)

// findStatement reads a statement of the ledgers that count. A ledger's matches and moves are
// committed before the ledger counts, so a webhook can arrive in between, and a statement requested
// at that moment would miss its payment. If there are recorded moves after the statement,
// findStatement waits for their ledger and reads again. It omits a ledger that does not count in
// time, for example because the follower died, or if too many statements are already waiting.
// throughLedger shows this.
func (a *API) findStatement(
	ctx context.Context, r *request, asked statementQuery, watches []domain.Watch, followed Followed,
) (view client.Statement, f readmodel.StatementFilter, s readmodel.Statement, err error) {
	for waited := false; ; waited = true {
		view, f = newStatement(r, asked, watches, followed)
		if f.FirstLedger > f.LastLedger && f.OpenMillis == 0 {
			return view, f, readmodel.Statement{}, nil
		}
		s, err = a.History.Statement(ctx, f, asked.after, asked.limit)
		if err != nil || s.Uncounted == 0 || waited {
			return view, f, s, err
		}
		leave, full := a.counting.Take(r.caller.holder(), maxAccountWaiters)
		if full != nil {
			return view, f, s, nil
		}
		err = r.turn.pauseTurn(ctx, func() (err error) {
			defer leave()
			followed, err = a.awaitCounted(ctx, followed, s.Uncounted)
			return err
		})
		if err == nil {
			err = a.stillValid(r)
		}
		if err != nil {
			return view, f, s, err
		}
	}
}

// awaitCounted returns the follower's cursor once a ledger counts, or what it is after countedMax.
func (a *API) awaitCounted(
	ctx context.Context, now Followed, ledger uint32,
) (Followed, error) {
	bound := time.NewTimer(countedMax)
	defer bound.Stop()
	tick := time.NewTicker(countedPoll)
	defer tick.Stop()
	for now.Ledger < ledger {
		select {
		case <-tick.C:
		case <-bound.C:
			return now, nil
		case <-ctx.Done():
			return now, ctx.Err()
		}
		newer, err := a.followed(ctx)
		if err != nil {
			return now, err
		}
		now = newer
	}
	return now, nil
}
