package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Pages of a history are short, because each fact has the complete state after it.
const (
	defaultHistory = 20
	maxHistory     = 50
)

// watchThen is an earlier state of a watch. It has no status, because that depends on the clock and
// on the endpoint.
type watchThen struct {
	client.Watch
	Status    string     `json:"status,omitzero"`
	DeletedAt *time.Time `json:"deletedAt"`
}

// endpointThen is an earlier state of an endpoint. It omits the effects of deliveries.
type endpointThen struct {
	client.Endpoint
	ConsecutiveFailures int          `json:"consecutiveFailures,omitzero"`
	Secrets             []secretThen `json:"secrets"` // newest first
	DeletedAt           *time.Time   `json:"deletedAt"`
}

// secretThen is when a secret was created and when it expires or expired.
type secretThen struct {
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// deliveryThen is an earlier state of an event's delivery. It omits the order among a wallet's
// deliveries, because no fact records when a turn comes.
type deliveryThen struct {
	ID            string                `json:"id"`
	Type          domain.EventType      `json:"type"`
	EndpointID    string                `json:"endpointId"`
	WatchID       *string               `json:"watchId"`
	Sequence      *uint64               `json:"sequence"`
	CreatedAt     time.Time             `json:"createdAt"` // of the event
	State         domain.DeliveryState  `json:"state"`
	Held          bool                  `json:"held"`
	Run           int                   `json:"run"`
	RunReason     *domain.RequeueReason `json:"runReason"`
	Attempts      int                   `json:"attempts"`
	LastAttempt   *attemptThen          `json:"lastAttempt"`
	NextAttemptAt *time.Time            `json:"nextAttemptAt"`
	MovedTo       *string               `json:"movedTo"`
}

type attemptThen struct {
	Number      int                  `json:"number"`
	SentAt      time.Time            `json:"sentAt"`
	StatusCode  *int                 `json:"statusCode"`
	Error       *domain.AttemptError `json:"error"`
	ErrorDetail *string              `json:"errorDetail"`
}

func viewDeliveryThen(d domain.TrackedDelivery) any {
	if !d.Exists() {
		return nil
	}
	then := deliveryThen{
		ID:            d.EventID,
		Type:          d.EventType,
		EndpointID:    d.EndpointID,
		WatchID:       unlessZero(d.WatchID),
		Sequence:      unlessZero(d.Sequence),
		CreatedAt:     at(d.CreatedAtMillis),
		State:         d.State,
		Held:          d.Held(),
		Run:           d.Run,
		RunReason:     unlessZero(d.Reason),
		Attempts:      d.Attempts,
		NextAttemptAt: instant(d.DueMillis()),
		MovedTo:       unlessZero(d.MovedTo),
	}
	if last := d.LastAttempt; last.Number != 0 {
		then.LastAttempt = &attemptThen{
			Number:      last.Number,
			SentAt:      at(last.Result.SentAtMillis),
			StatusCode:  unlessZero(last.Result.StatusCode),
			Error:       unlessZero(last.Result.Error),
			ErrorDetail: unlessZero(last.Result.ErrorDetail),
		}
	}
	return then
}

func viewWatchThen(w domain.Watch) any {
	if !w.Exists() {
		return nil
	}
	return watchThen{Watch: viewWatch(w, ""), DeletedAt: instant(w.DeletedAtMillis)}
}

func viewEndpointThen(e domain.Endpoint) any {
	if !e.Exists() {
		return nil
	}
	then := endpointThen{
		Endpoint:  viewEndpoint(e, nil),
		Secrets:   []secretThen{},
		DeletedAt: instant(e.DeletedAtMillis),
	}
	for _, s := range e.Secrets {
		then.Secrets = append(then.Secrets,
			secretThen{at(s.CreatedAtMillis), instant(s.ExpiresAtMillis)})
	}
	return then
}

func (a *API) getWatchHistory(ctx context.Context, r *request) (reply, error) {
	return getHistory(ctx, a, r, object[domain.Watch]{
		what:   "watch",
		prefix: domain.WatchPrefix,
		read: func(
			ctx context.Context, f readmodel.StepFilter,
		) (readmodel.StepPage[domain.Watch], error) {
			page, err := a.History.WatchSteps(ctx, f)
			return narrowedWatchSteps(r, page), err
		},
		view:  viewWatchThen,
		look:  a.Directory.Watch,
		owner: func(w domain.Watch) string { return w.AccountID },
	})
}

func (a *API) getEndpointHistory(ctx context.Context, r *request) (reply, error) {
	return getHistory(ctx, a, r, object[domain.Endpoint]{
		what:   "endpoint",
		prefix: domain.EndpointPrefix,
		read:   a.History.EndpointSteps,
		view:   viewEndpointThen,
		look:   a.Directory.Endpoint,
		owner:  func(e domain.Endpoint) string { return e.AccountID },
	})
}

func (a *API) getEventHistory(ctx context.Context, r *request) (reply, error) {
	if r.caller.endpointID != "" {
		if err := a.awaitOwnFacts(ctx, r); err != nil {
			return reply{}, err
		}
		if err := a.findEvent(ctx, r); err != nil { // the event may be at another endpoint now
			return reply{}, err
		}
	}
	return getHistory(ctx, a, r, object[domain.TrackedDelivery]{
		what:   "event",
		prefix: domain.EventPrefix,
		read: func(
			ctx context.Context, f readmodel.StepFilter,
		) (readmodel.StepPage[domain.TrackedDelivery], error) {
			page, err := a.History.EventSteps(ctx, f)
			return narrowedSteps(r, page), err
		},
		view: viewDeliveryThen,
	})
}

type object[S any] struct {
	what, prefix string
	read         func(context.Context, readmodel.StepFilter) (readmodel.StepPage[S], error)
	view         func(S) any
	// look finds the object in the directory. It is nil if the directory does not contain such
	// objects, and their facts determine the account.
	look  func(id string) (S, bool, error)
	owner func(S) string
}

// getHistory returns a page of an object's facts. It looks in the directory only if the first facts
// are not kept, because deleted objects also have a history.
func getHistory[S any](
	ctx context.Context, a *API, r *request, of object[S],
) (reply, error) {
	q := newListQuery(r)
	after, limit, err := a.pageWithin(r, q, defaultHistory, maxHistory)
	if err != nil {
		return reply{}, err
	}
	if !domain.IsID(of.prefix, r.subjectID) {
		return reply{}, noSuch(of.what)
	}
	f := readmodel.StepFilter{AccountID: r.caller.accountID, ID: r.subjectID, Limit: limit}
	if after != nil {
		f.Before = uint64(after.CreatedAtMillis) // #nosec G115 -- the cursor is signed
		f.BeforeAt = after.ID
	}
	if err := a.awaitOwnFacts(ctx, r); err != nil {
		return reply{}, err
	}
	page, err := of.read(ctx, f)
	if of.look != nil &&
		(errors.Is(err, readmodel.ErrNotFound) || errors.Is(err, readmodel.ErrFactsMissing)) {
		err = whyNoFacts(ctx, a, r, of)
	}
	if err := stepsError(of.what, of.look == nil, err); err != nil {
		return reply{}, err
	}
	var next *readmodel.Position
	if page.More {
		next = pointer(positionOfStep(page.Steps[len(page.Steps)-1]))
	}
	return list(a, r, q, page.Steps, next, positionOfStep,
		func(s domain.Step[S]) (client.Fact, error) { return viewStep(s, of.view), nil })
}

func positionOfStep[S any](s domain.Step[S]) readmodel.Position {
	return readmodel.Position{
		CreatedAtMillis: int64(s.Fact.Version), // versions count by one
		ID:              s.Fact.Aggregate,
	}
}

// whyNoFacts returns why the facts of an object do not reveal its account: without the first fact,
// they name none. Only the object's own account may learn that it exists.
func whyNoFacts[S any](ctx context.Context, a *API, r *request, of object[S]) error {
	_, ours, err := lookUp(ctx, a, of.what, func() (S, bool, error) {
		found, there, err := of.look(r.subjectID)
		return found, there && of.owner(found) == r.caller.accountID, err
	})
	if err == nil && ours {
		err = readmodel.ErrFactsMissing
	}
	return cmp.Or(err, readmodel.ErrNotFound)
}

func stepsError(what string, expires bool, err error) error {
	switch {
	case errors.Is(err, readmodel.ErrNotFound):
		return noSuch(what)
	case errors.Is(err, readmodel.ErrFactsMissing) && expires:
		return problem.New(problem.CodeFactsNotKept, "The facts of the "+what+" are no longer "+
			"stored: they are older than the history, or than its record of facts. The operator can "+
			"recover those that the journal still holds with "+
			"`lumenhook rebuild --table delivery_facts --table facts`.")
	case errors.Is(err, readmodel.ErrFactsMissing):
		return problem.New(problem.CodeFactsNotKept, "The "+what+" is older than the record of its "+
			"facts. The operator can fill the record from the journal with "+
			"`lumenhook rebuild --table facts`.")
	case errors.Is(err, readmodel.ErrManyFacts):
		return problem.New(problem.CodeTooManyFacts, "The "+what+" has too many facts before the page "+
			"to compute its state: the limits are 100000 facts, 32 MiB and a few seconds.")
	}
	return historyError(err)
}

func viewStep[S any](s domain.Step[S], view func(S) any) client.Fact {
	before, after := fieldsOf(view(s.Before)), fieldsOf(view(s.After))
	return client.Fact{
		Version: s.Fact.Version,
		Fact:    s.Fact.Body.FactType(),
		At:      at(s.Fact.AtMillis),
		Changes: changesOf("", before, after, []client.FieldChange{}),
		State:   []byte(encoded(after)),
	}
}

// fieldsOf returns the fields of a view as clients receive them; none for nil.
func fieldsOf(view any) (fields map[string]any) {
	if err := json.Unmarshal(encoded(view), &fields); err != nil {
		panic(fmt.Sprintf("api: a view of %T is no object: %v", view, err))
	}
	return fields
}

// changesOf appends the fields that differ, sorted by name. It compares objects field by field, and
// lists as a whole.
func changesOf(
	under string, before, after map[string]any, changes []client.FieldChange,
) []client.FieldChange {
	names := make(map[string]any)
	maps.Copy(names, before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], after[name]
		from, fromObject := was.(map[string]any)
		to, toObject := is.(map[string]any)
		switch {
		case fromObject && toObject:
			changes = changesOf(under+name+".", from, to, changes)
		case !reflect.DeepEqual(was, is):
			changes = append(changes, client.FieldChange{
				Field: under + name, Before: []byte(encoded(was)), After: []byte(encoded(is)),
			})
		}
	}
	return changes
}
