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

// getReceipt returns evidence of an event's last attempts or of a single attempt.
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

// loggedAttempts returns the attempts of an event that are in a log, up to a limit, or the attempt
// with the number if it is not 0.
func loggedAttempts(e readmodel.Event, number uint64) (logged []readmodel.Attempt) {
	for _, attempt := range e.Attempts {
		wanted := number == 0 || uint64(attempt.Number) == number // #nosec G115 -- not negative
		if wanted && attempt.Entry.Number != 0 {
			logged = append(logged, attempt)
		}
	}
	return logged[max(0, len(logged)-receipt.MaxAttempts):]
}

// splitLog splits off the attempts in the first attempt's log. If an event moved to another
// endpoint and back, attempts of other logs are between them.
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
