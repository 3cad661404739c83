package api

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// getReceipt answers with evidence of an event's attempts: all of them, to a bound, or one.
func (a *API) getReceipt(ctx context.Context, r *request) (reply, error) {
	q := decode.NewQuery(r.http.URL, "attempt", "earlierSize")
	number := q.Number("attempt", math.MaxUint32)
	earlier := q.Number("earlierSize", maxSequence)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	if err := a.findEvent(ctx, r); err != nil {
		return reply{}, err
	}
	if r.event.Behind {
		return reply{}, historyError(readmodel.ErrBehind)
	}
	keys, err := a.receiptSigners()
	if err != nil {
		return reply{}, err
	}
	logged := loggedAttempts(r.event, number)
	if len(logged) == 0 {
		return reply{}, problem.New(problem.CodeNoReceipt,
			"No attempt at this event is in a log yet.")
	}
	view := receipt.Receipt{Format: receipt.Format, EventID: r.subjectID}
	for len(logged) > 0 {
		var of []readmodel.Attempt
		of, logged = splitLog(logged)
		log, err := a.prove(ctx, r, of, earlier, keys)
		if err != nil {
			return reply{}, err
		}
		view.Logs = append(view.Logs, log)
	}
	return reply{view: view}, nil
}

// receiptSigners are the keys that sign a receipt now.
func (a *API) receiptSigners() (keys []domain.Secret, err error) {
	if a.SigningKeys != nil {
		keys, err = a.SigningKeys.Signers(a.Now().UnixMilli())
	}
	if err == nil && len(keys) == 0 {
		err = problem.New(problem.CodeNoSigningKey,
			"The deployment has no signing key for receipts. The operator creates one with "+
				"`lumenhook secrets signing create`; attempts are logged in the meantime.")
	}
	return keys, err
}

// loggedAttempts are the attempts of an event that are in a log, the last of them if there are
// many; with a number, that one.
func loggedAttempts(e readmodel.Event, number uint64) (logged []readmodel.Attempt) {
	for _, attempt := range e.Attempts {
		wanted := number == 0 || uint64(attempt.Number) == number // #nosec G115 -- not negative
		if wanted && attempt.Entry.Number != 0 {
			logged = append(logged, attempt)
		}
	}
	return logged[max(0, len(logged)-receipt.MaxAttempts):]
}

// splitLog takes the attempts in the log of the first one. An event that was handed over and came
// back has attempts of other logs between them.
func splitLog(logged []readmodel.Attempt) (of, others []readmodel.Attempt) {
	for _, attempt := range logged {
		if attempt.EndpointID == logged[0].EndpointID && attempt.Entry.From == logged[0].Entry.From {
			of = append(of, attempt)
		} else {
			others = append(others, attempt)
		}
	}
	return of, others
}

// prove proves attempts of one log.
func (a *API) prove(
	ctx context.Context, r *request, of []readmodel.Attempt, earlier uint64, keys []domain.Secret,
) (receipt.Log, error) {
	name := receipt.Name{
		AccountID:  r.caller.accountID,
		EndpointID: of[0].EndpointID,
		From:       of[0].Entry.From,
	}
	size, err := a.History.LogSize(ctx, name.EndpointID, name.From)
	if err != nil {
		return receipt.Log{}, historyError(err)
	}
	attempts := make([]receipt.Logged, len(of))
	for i, attempt := range of {
		made := domain.AttemptMade{
			EventID: r.subjectID,
			Number:  attempt.Number,
			Result:  attempt.Result,
			Entry:   attempt.Entry,
		}
		attempts[i] = receipt.Logged{Record: made.Record(name.EndpointID), Number: made.Entry.Number}
	}
	log, err := receipt.Prove(name, size, earlier, attempts,
		func(leaves []uint64) (map[uint64][]byte, error) {
			hashes, err := a.History.LogHashes(ctx, name.EndpointID, name.From, leaves)
			return hashes, historyError(err)
		}, keys)
	if errors.Is(err, receipt.ErrIncomplete) {
		return log, problem.New(problem.CodeHistoryBehind,
			"The history lacks hashes of the log, so it cannot prove the attempt. Repeat the request "+
				"after the time in Retry-After. If this continues, the operator restores them with "+
				"`lumenhook rebuild --table attempt_log`.").
			RetryAfter(historyRetrySeconds).Because(err)
	}
	if err != nil {
		err = fmt.Errorf("proving attempts of %s: %w", name, err)
	}
	return log, err
}
