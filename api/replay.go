package api

import (
	"context"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

type replay struct {
	domain.ReplayEndpoint
	selection
}

func decodeReplay(r *request) (re replay, faults *problem.Faults) {
	names := without(eventFilters(), "endpointId", "state", "since", "until")
	re.selection, faults = decodeSelection(r, names,
		decode.Into("since", &re.SinceMillis, func(v decode.Value) int64 {
			v.Require("is required: failed deliveries that were created at that time or later are " +
				"queued again")
			since, _ := v.Time()
			return since
		}),
		decode.Into("until", &re.UntilMillis, func(v decode.Value) int64 {
			until, given := v.Time()
			if given && !v.Faulty() && until <= re.SinceMillis {
				v.Fault(problem.FaultRangeIsEmpty, "must be later than since")
			}
			return until
		}))
	if re.filter.Type == domain.TestPing {
		faults.Add("/type", problem.FaultInvalidValue,
			"must not be test.ping: a test is not replayed; resend it, or send another")
	}
	re.EndpointID = r.subjectID
	re.filter.EndpointID, re.filter.State, re.filter.NoTests = r.subjectID, domain.StateFailed, true
	re.filter.SinceMillis, re.filter.UntilMillis = re.SinceMillis, re.ReplayEndpoint.UntilMillis
	return re, faults
}

// replayEndpoint queues failed deliveries again. The engine knows the deliveries of a time range.
// Only the history knows their payments, so with a filter the history selects the events and the
// command lists them.
func (a *API) replayEndpoint(ctx context.Context, r *request) (reply, error) {
	asked, faults := decodeReplay(r)
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	var body domain.CommandBody = asked.ReplayEndpoint
	if asked.filtered() || asked.dryRun {
		chosen, more, err := a.choose(ctx, r, asked.filter, nil, readmodel.ChooseMax)
		if err != nil {
			return reply{}, err
		}
		queue := min(len(chosen), domain.MaxReplay)
		if asked.dryRun {
			view := client.ReplayResult{
				Matched:   len(chosen),
				Truncated: more != nil || queue < len(chosen),
				DryRun:    true,
			}
			return reply{view: view}, nil
		}
		body = replayOf(r.subjectID, chosen, more != nil)
	}
	result, err := a.submit(ctx, r, body)
	made, err := partOf(result, err, result.Answer.Replay)
	if err != nil {
		return reply{}, err
	}
	view := client.ReplayResult{Queued: made.Queued, Matched: made.Matched, Truncated: made.Truncated}
	return reply{view: view, replayed: result.Replayed}, nil
}

// replayOf queues the oldest of the chosen events, which are sorted newest first. more means that
// there are others that were not counted.
func replayOf(endpointID string, chosen []readmodel.Position, more bool) domain.ReplayEvents {
	body := domain.ReplayEvents{EndpointID: endpointID, Matched: len(chosen)}
	for i := len(chosen) - 1; i >= 0 && len(body.EventIDs) < domain.MaxReplay; i-- {
		body.EventIDs = append(body.EventIDs, chosen[i].ID)
	}
	if more {
		body.Matched++
	}
	return body
}

// choose returns the events that match a filter. It first waits until the history includes every
// acknowledged write.
func (a *API) choose(
	ctx context.Context, r *request, f readmodel.EventFilter, after *readmodel.Position, limit int,
) (chosen []readmodel.Position, more *readmodel.Position, err error) {
	err = r.turn.pauseTurn(ctx, func() error { return historyError(a.History.CatchUp(ctx)) })
	if err != nil {
		return nil, nil, err
	}
	chosen, more, err = a.History.Choose(ctx, f, after, limit)
	return chosen, more, historyError(err)
}
