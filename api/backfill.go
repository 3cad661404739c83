package api

import (
	"context"
	"math"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// viewBackfill returns nil for a watch without a backfill. The end is known if the request names
// it, or once the backfill has started.
func viewBackfill(b domain.Backfill) *client.Backfill {
	if b.Request == 0 {
		return nil
	}
	v := &client.Backfill{
		From:        b.From,
		Next:        b.Next,
		Done:        b.Done(),
		RequestedAt: at(b.RequestedAtMillis),

		LedgersRead:      b.Next - b.From - b.Skipped,
		PaymentsMatched:  b.Matched,
		AlreadyDelivered: b.Matched - b.Created,
		EventsCreated:    b.Created,
	}
	if b.EndedAtMillis != 0 {
		v.Problem = unlessZero(b.Problem)
	}
	switch {
	case b.Until != 0:
		v.To = &b.Until
	case b.To != 0:
		v.To = &b.To
	}
	return v
}

func decodeBackfill(body []byte) (b domain.BackfillWatch, faults *problem.Faults) {
	faults = decode.Object(body,
		decode.Into("from", &b.From, func(v decode.Value) uint32 {
			v.Require("is required: the sequence of the first ledger to look for payments in")
			from, _ := v.Integer(1, math.MaxInt32)
			return uint32(from)
		}),
		decode.Into("to", &b.To, func(v decode.Value) uint32 {
			to, given := v.Integer(1, math.MaxInt32)
			if given && !v.Faulty() && uint32(to) < b.From {
				v.Fault(problem.FaultRangeIsEmpty, "must not be before from")
			}
			return uint32(to)
		}))
	return b, faults
}

func (a *API) backfillWatch(ctx context.Context, r *request) (reply, error) {
	body, faults := decodeBackfill(r.body)
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	err := a.withinQuota(r, r.watch.AwaitsFollower() || a.mayRepeatChange(r),
		domain.Counts{Backfills: 1}, domain.Counts{})
	if err != nil {
		return reply{}, err
	}
	body.WatchID, body.OfEndpointID = r.subjectID, r.caller.endpointID
	result, err := a.submit(ctx, r, body)
	watch, err := a.answeredWatch(ctx, r, result, err)
	if err != nil {
		return reply{}, err
	}
	a.awaitAnswer(ctx, r, result, watch.ID, watch.Version, a.Directory.AwaitWatch)
	a.warnings.settle(r, result.Replayed, nil) // marks a retry, which meets no quota
	view, err := a.showWatch(r, *watch)
	return reply{view: view, etag: decode.ETag(watch.Revision), replayed: result.Replayed}, err
}
