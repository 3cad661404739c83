package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const catchUpTimeout = 2 * time.Second

// lookUp looks up an object. If it is missing, lookUp tries again once this node has read
// everything acknowledged before, because another node may have created it. This takes equally long
// for another account's object and for one that does not exist.
func lookUp[T any](
	ctx context.Context, a *API, what string, look func() (T, bool, error),
) (T, bool, error) {
	found, ok, err := look()
	if err == nil && !ok {
		waiting, cancel := context.WithTimeout(ctx, catchUpTimeout)
		defer cancel()
		if behind := a.Directory.Confirm(waiting); behind != nil {
			return found, false, problem.New(problem.CodeDirectoryBehind,
				"This node cannot tell whether the object exists: it has not read the newest writes. Repeat "+
					"the request after the time in Retry-After.").
				RetryAfter(directoryRetrySeconds).Because(behind)
		}
		found, ok, err = look()
	}
	if err != nil {
		return found, false, fmt.Errorf("looking up the %s: %w", what, err)
	}
	return found, ok, nil
}

// find returns the object in the request's path if it belongs to the caller. If the object is
// missing, find refuses the request unless it may be a retry. In that case the engine decides,
// because it knows its first answer.
func find[T any](
	ctx context.Context, a *API, r *request, what, prefix string, look func() (T, bool, error),
) (none T, err error) {
	if !domain.IsID(prefix, r.subjectID) {
		return none, noSuch(what)
	}
	found, ok, err := lookUp(ctx, a, what, look)
	switch {
	case err != nil:
		return none, err
	case ok:
		return found, nil
	case r.idempotencyKey == "":
		return none, noSuch(what)
	}
	r.missing = what
	return none, nil
}

func noSuch(what string) *problem.Problem {
	return problem.New(problem.CodeNotFound, "Your account has no "+what+" with this id.")
}

func (a *API) findEndpoint(ctx context.Context, r *request) (err error) {
	r.endpoint, err = find(ctx, a, r, "endpoint", domain.EndpointPrefix,
		func() (domain.Endpoint, bool, error) { return a.ownEndpoint(r, r.subjectID) })
	return err
}

func (a *API) ownEndpoint(r *request, id string) (domain.Endpoint, bool, error) {
	e, found, err := a.Directory.Endpoint(id)
	return e, found && e.AccountID == r.caller.accountID && !e.Deleted() && r.caller.sees(e.ID), err
}

// checkEndpoint adds a fault if the caller has no endpoint with this id. An empty id was reported
// before.
func (a *API) checkEndpoint(
	ctx context.Context, r *request, id string, faults *problem.Faults,
) error {
	if id == "" {
		return nil
	}
	_, found, err := lookUp(ctx, a, "endpoint", func() (domain.Endpoint, bool, error) {
		return a.ownEndpoint(r, id)
	})
	if err == nil && !found {
		faults.Add("/endpointId", problem.FaultEndpointNotFound,
			"names no endpoint of your account: create one with POST /v1/endpoints and use its id")
	}
	return err
}

func (a *API) findWatch(ctx context.Context, r *request) (err error) {
	r.watch, err = find(ctx, a, r, "watch", domain.WatchPrefix,
		func() (domain.Watch, bool, error) { return a.ownWatch(r, r.subjectID) })
	return err
}

func (a *API) ownWatch(r *request, id string) (domain.Watch, bool, error) {
	w, found, err := a.Directory.Watch(id)
	return w, found && w.AccountID == r.caller.accountID && !w.Deleted() &&
		r.caller.sees(w.EndpointID), err
}

func (a *API) findKey(ctx context.Context, r *request) (err error) {
	r.key, err = find(ctx, a, r, "API key", domain.KeyPrefix,
		func() (domain.Key, bool, error) {
			account, _, err := a.Directory.Account(r.caller.accountID)
			key, found := account.Key(r.subjectID)
			return key, found && !key.Expired(a.Now().UnixMilli()), err
		})
	return err
}

// findEvent finds one of the caller's events in the history, with the event's endpoints. It returns
// an error if the history cannot tell.
func (a *API) findEvent(ctx context.Context, r *request) (err error) {
	if !domain.IsID(domain.EventPrefix, r.subjectID) {
		return noSuch("event")
	}
	r.event, err = a.History.Event(ctx, r.caller.accountID, r.subjectID)
	if errors.Is(err, readmodel.ErrNotFound) {
		return noSuch("event")
	}
	if err := historyError(err); err != nil {
		return err
	}
	r.event, err = narrowed(r, r.event)
	return err
}

// findForResend finds one of the caller's events for resending, including what the engine may have
// forgotten.
func (a *API) findForResend(ctx context.Context, r *request) (err error) {
	if !domain.IsID(domain.EventPrefix, r.subjectID) {
		return noSuch("event")
	}
	r.recalled, err = a.History.Recall(ctx, r.caller.accountID, r.subjectID)
	switch {
	case errors.Is(err, readmodel.ErrExpired):
		return expired()
	case errors.Is(err, readmodel.ErrNotFound):
		return noSuch("event")
	}
	if err := historyError(err); err != nil {
		return err
	}
	_, err = narrowed(r, r.recalled.Event)
	return err
}

func expired() *problem.Problem {
	return problem.New(problem.CodeEventExpired,
		"The event is too old to be sent again: its body is no longer kept.")
}

func historyError(err error) error {
	unavailable := func(code, detail string) error {
		return problem.New(code, detail+" Repeat the request after the time in Retry-After.").
			RetryAfter(historyRetrySeconds).Because(err)
	}
	var missing readmodel.Missing
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing) && missing.Why != "":
		return unavailable(problem.CodeHistoryUnavailable, "There is no history now: "+missing.Why+
			". Payments are still observed and delivered.")
	case errors.Is(err, readmodel.ErrBehind):
		return unavailable(problem.CodeHistoryBehind,
			"The history has not caught up, or is being rebuilt: it cannot tell yet whether the event "+
				"exists, or all that a list holds.")
	case errors.Is(err, readmodel.ErrUnavailable), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		return unavailable(problem.CodeHistoryUnavailable,
			"The history cannot be read now; payments are still observed and delivered.")
	}
	return fmt.Errorf("reading the history: %w", err)
}
