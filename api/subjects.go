package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// catchUpTimeout bounds the wait for what another node may have written just
// before.
const catchUpTimeout = 2 * time.Second

// lookUp asks for an object and, when it is not there, asks again once this node
// has read all that was acknowledged before: another node may have made it.
// What another account owns takes as long to be denied as what does not exist.
func lookUp[T any](
	ctx context.Context, a *API, what string, find func() (T, bool, error),
) (T, bool, *Problem) {
	found, ok, err := find()
	if err == nil && !ok {
		waiting, cancel := context.WithTimeout(ctx, catchUpTimeout)
		defer cancel()
		if behind := a.Directory.CatchUp(waiting); behind != nil {
			return found, false, newProblem(codeDirectoryBehind,
				"This node cannot tell whether the object exists: it has not read the newest writes. Repeat "+
					"the request after the time in Retry-After.").retryAfter(
				directoryRetrySeconds,
			).because(behind)
		}
		found, ok, err = find()
	}
	if err != nil {
		return found, false, internal(fmt.Errorf("looking up %s: %w", what, err))
	}
	return found, ok, nil
}

// ownEndpoint finds an endpoint of the caller's.
func (a *API) ownEndpoint(
	ctx context.Context, accountID, id string,
) (domain.Endpoint, bool, *Problem) {
	return lookUp(ctx, a, "an endpoint", func() (domain.Endpoint, bool, error) {
		e, found, err := a.Directory.Endpoint(id)
		return e, found && e.AccountID == accountID && !e.Deleted(), err
	})
}

func (a *API) findEndpoint(ctx context.Context, x *exchange) *Problem {
	id := mux.Vars(x.request)["id"]
	if !domain.IsID(domain.EndpointPrefix, id) {
		return noSuch("endpoint")
	}
	e, found, problem := a.ownEndpoint(ctx, x.caller.accountID, id)
	x.endpoint = e
	if problem == nil && !found {
		x.endpoint = domain.Endpoint{ID: id}
		return x.absent("endpoint")
	}
	return problem
}

func (a *API) findWatch(ctx context.Context, x *exchange) (problem *Problem) {
	id := mux.Vars(x.request)["id"]
	if !domain.IsID(domain.WatchPrefix, id) {
		return noSuch("watch")
	}
	var found bool
	x.watch, found, problem = lookUp(ctx, a, "a watch", func() (domain.Watch, bool, error) {
		w, found, err := a.Directory.Watch(id)
		return w, found && w.AccountID == x.caller.accountID && !w.Deleted(), err
	})
	if problem == nil && !found {
		x.watch = domain.Watch{ID: id}
		return x.absent("watch")
	}
	return problem
}

func (a *API) findKey(ctx context.Context, x *exchange) (problem *Problem) {
	id := mux.Vars(x.request)["id"]
	if !domain.IsID(domain.KeyPrefix, id) {
		return noSuch("API key")
	}
	var found bool
	x.key, found, problem = lookUp(ctx, a, "an API key", func() (domain.Key, bool, error) {
		account, _, err := a.Directory.Account(x.caller.accountID)
		key, found := account.Key(id)
		return key, found && !key.Expired(a.Now().UnixMilli()), err
	})
	if problem == nil && !found {
		x.key = domain.Key{ID: id}
		return x.absent("API key")
	}
	return problem
}

// findEvent finds an event in the history, which knows the endpoint it went to.
func (a *API) findEvent(ctx context.Context, x *exchange) (problem *Problem) {
	x.event, problem = a.readEvent(ctx, x)
	return problem
}

// absent refuses what is not there, unless the request may be a repeat: then the
// engine is asked, which knows what it answered when it was there.
func (x *exchange) absent(what string) *Problem {
	if x.idempotencyKey != "" {
		x.missing = what
		return nil
	}
	return noSuch(what)
}

func noSuch(what string) *Problem {
	return newProblem(codeNotFound, "Your account has no "+what+" with this id.")
}

// readEvent finds an event of the caller's, or says why it cannot be told.
func (a *API) readEvent(ctx context.Context, x *exchange) (EventRecord, *Problem) {
	id := mux.Vars(x.request)["id"]
	if !domain.IsID(domain.EventPrefix, id) {
		return EventRecord{}, noSuch("event")
	}
	record, err := a.History.Event(ctx, x.caller.accountID, id)
	if errors.Is(err, ErrEventNotFound) {
		return record, noSuch("event")
	}
	return record, historyProblem(err)
}

func historyProblem(err error) *Problem {
	var missing HistoryMissing
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing) && missing.Why != "":
		return newProblem(codeHistoryUnavailable,
			"There is no history now: "+missing.Why+
				". Payments are observed and delivered all the same. Repeat the request after the time in "+
				"Retry-After.").retryAfter(
			historyRetrySeconds,
		).because(err)
	case errors.Is(err, ErrHistoryBehind):
		return newProblem(codeHistoryBehind,
			"The history has not caught up: it cannot tell yet whether the event exists, or all that a "+
				"list holds. Repeat the request after the time in Retry-After.").retryAfter(
			historyRetrySeconds,
		).because(err)
	case errors.Is(err, ErrHistoryUnavailable), errors.Is(err,
		context.DeadlineExceeded), errors.Is(err,
		context.Canceled):
		return newProblem(codeHistoryUnavailable,
			"The history cannot be read now; payments are observed and delivered all the same. Repeat the "+
				"request after the time in Retry-After.").retryAfter(
			historyRetrySeconds,
		).because(err)
	}
	return internal(fmt.Errorf("reading the history: %w", err))
}
