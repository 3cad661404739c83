package api

import (
	"context"
	"math"
	"net/http"

	"github.com/lumenhook/lumenhook/domain"
)

// backfillView is how far a watch's latest backfill has come.
type backfillView struct {
	From        uint32  `json:"from"`
	To          *uint32 `json:"to"`
	Next        uint32  `json:"next"`
	Done        bool    `json:"done"`
	Problem     *string `json:"problem"`
	RequestedAt string  `json:"requestedAt"`
}

// viewBackfill is nothing for a watch that nobody asked a backfill of. Where it
// ends is known from the beginning, or once it has begun.
func viewBackfill(b domain.Backfill) *backfillView {
	if b.Request == 0 {
		return nil
	}
	v := &backfillView{
		From:        b.From,
		Next:        b.Next,
		Done:        b.Done(),
		RequestedAt: domain.FormatMillis(b.RequestedAtMillis),
	}
	switch {
	case b.Until != 0:
		v.To = &b.Until
	case b.To != 0:
		v.To = &b.To
	}
	if b.Problem != "" {
		v.Problem = &b.Problem
	}
	return v
}

func (a *API) backfillWatch(ctx context.Context, x *exchange) (reply, *Problem) {
	body, problem := readBackfill(x)
	if problem != nil {
		return reply{}, problem
	}
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = body
	result, problem := a.submit(ctx, x, command)
	watch, problem := answerOf(result, problem, command, result.Answer.Watch)
	if problem != nil {
		return reply{}, problem
	}
	a.awaitAnswer(ctx, x, result, watch.ID, watch.Version, a.Directory.AwaitWatch)
	status, err := a.statusOf(*watch)
	if err != nil {
		return reply{}, internal(err)
	}
	answer, problem := jsonReply(http.StatusOK, viewWatch(*watch, status))
	answer.etag, answer.replayed = etag(watch.Revision), result.Replayed
	return answer, problem
}

func readBackfill(x *exchange) (domain.BackfillWatch, *Problem) {
	body := domain.BackfillWatch{WatchID: x.watch.ID}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return body, problem
	}
	var f faults
	if o, ok := asObject(root, "", &f); ok {
		o.only("from", "to")
		if _, given := o.get("from"); !given {
			o.fault("from", faultRequired,
				"is required: the sequence of the first ledger to look for payments in")
		}
		from, _ := o.integer("from", 1, math.MaxInt32)
		to, toGiven := o.integer("to", 1, math.MaxInt32)
		if toGiven && len(f.list) == 0 && to < from {
			o.fault("to", faultRangeIsEmpty, "must not be before from")
		}
		body.From, body.To = uint32(from), uint32(to)
	}
	return body, f.problem()
}
