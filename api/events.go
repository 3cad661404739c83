package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const historyRetrySeconds = 2

// deliveryPart holds the fields that GET /v1/events/{id} adds to the event's body.
type deliveryPart struct {
	Delivery      client.Delivery  `json:"delivery"`
	Attempts      []client.Attempt `json:"attempts"`
	HistoryBehind bool             `json:"historyBehind"`
}

func (a *API) getEvent(ctx context.Context, r *request) (reply, error) {
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	if err := a.findEvent(ctx, r); err != nil {
		return reply{}, err
	}
	held, err := a.held(r.event)
	if err != nil {
		return reply{}, err
	}
	part := deliveryPart{
		Delivery:      viewDelivery(r.event, held),
		Attempts:      make([]client.Attempt, len(r.event.Attempts)),
		HistoryBehind: r.event.Behind,
	}
	for i, attempt := range r.event.Attempts {
		part.Attempts[i] = viewAttempt(attempt)
	}
	body, err := viewEvent(r.event.Body, part)
	if err != nil {
		return reply{}, fmt.Errorf("showing the event %s: %w", r.subjectID, err)
	}
	return reply{body: body}, nil
}

// listedPart holds the fields that a list adds to an event's body.
type listedPart struct {
	Delivery listedDelivery `json:"delivery"`
}

// listedDelivery is a delivery with a summary of its attempts, which lists omit.
type listedDelivery struct {
	client.Delivery
	Attempts       int     `json:"attempts"`
	LastStatusCode *int    `json:"lastStatusCode"`
	LastError      *string `json:"lastError"`
}

func (a *API) listEvents(ctx context.Context, r *request) (reply, error) {
	q, f := readEventFilter(r)
	after, limit, err := a.page(r, q)
	if err != nil {
		return reply{}, err
	}
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	page, next, err := a.History.Events(ctx, f, after, limit)
	if err := historyError(err); err != nil {
		return reply{}, err
	}
	views, err := a.viewEvents(r, page)
	if err != nil {
		return reply{}, err
	}
	return list(a, r, q, views, next, func(e listedEvent) readmodel.Position { return e.at },
		func(e listedEvent) (jsontext.Value, error) { return e.text, nil })
}

func readEventFilter(r *request) (*decode.Query, readmodel.EventFilter) {
	q := newListQuery(r, eventFilters()...)
	return q, eventFilterOf(r, q)
}

func eventFilters() []string {
	return []string{
		"endpointId", "watchId", "walletAddress", "type", "state", "since", "until",
		"paymentId", "txHash", "sender", "memo", "asset", "minAmount", "maxAmount",
	}
}

func eventFilterOf(r *request, q *decode.Query) readmodel.EventFilter {
	f := readmodel.EventFilter{
		AccountID:     r.caller.accountID,
		EndpointID:    endpointParameter(r, q),
		WatchID:       idParameter(q, "watchId", domain.WatchPrefix),
		WalletAddress: addressParameter(q, "walletAddress", accountFault),
		Type: decode.OneOf(q, "type",
			domain.PaymentReceived, domain.PaymentRejected, domain.TestPing,
			domain.EndpointFailingEvent, domain.EndpointDisabledEvent),
		State: decode.OneOf(q, "state", domain.StateQueued, domain.StateWaiting,
			domain.StateDelivered, domain.StateFailed, domain.StateCancelled),
		PaymentID:   paymentParameter(q, "paymentId"),
		TxHash:      hashParameter(q, "txHash"),
		Sender:      addressParameter(q, "sender", senderFault),
		Memo:        memoParameter(q, "memo"),
		Asset:       assetParameter(q, "asset"),
		MinStroops:  amountParameter(q, "minAmount"),
		MaxStroops:  amountParameter(q, "maxAmount"),
		SinceMillis: q.Time("since"),
		UntilMillis: q.Time("until"),
	}
	if f.SinceMillis != 0 && f.UntilMillis != 0 && f.UntilMillis <= f.SinceMillis {
		q.Fault("until", problem.FaultRangeIsEmpty, "must be later than since")
	}
	if f.MinStroops != nil && f.MaxStroops != nil && *f.MaxStroops < *f.MinStroops {
		q.Fault("maxAmount", problem.FaultRangeIsEmpty, "must not be less than minAmount")
	}
	return f
}

type listedEvent struct {
	at   readmodel.Position
	text jsontext.Value
}

func (a *API) viewEvents(r *request, page []readmodel.Event) ([]listedEvent, error) {
	views := make([]listedEvent, 0, len(page))
	known := make(map[string]bool) // whether deliveries are held, by endpoint
	for _, record := range page {
		held, looked := known[record.EndpointID]
		if !looked && record.State.Pending() {
			var err error
			if held, err = a.held(record); err != nil {
				return nil, err
			}
			known[record.EndpointID] = held
		}
		view, err := viewEvent(record.Body, listedPart{listedDelivery{
			Delivery:       viewDelivery(record, held),
			Attempts:       record.AttemptsMade,
			LastStatusCode: unlessZero(record.LastStatusCode),
			LastError:      nullable(record.LastError),
		}})
		if err != nil { // the other events can still be shown
			a.Log.Error("an event cannot be shown and is left out of a list: `lumenhook rebuild --table "+
				"events` reads its body anew",
				"event", record.ID, "account", r.caller.accountID, "error", err)
			continue
		}
		at := readmodel.Position{CreatedAtMillis: record.CreatedAtMillis, ID: record.ID}
		views = append(views, listedEvent{at, view})
	}
	return views, nil
}

// held reports whether a pending delivery waits for its endpoint to be enabled.
func (a *API) held(r readmodel.Event) (bool, error) {
	if !r.State.Pending() {
		return false, nil
	}
	endpoint, found, err := a.Directory.Endpoint(r.EndpointID)
	if err != nil {
		return false, fmt.Errorf("looking up the endpoint of an event: %w", err)
	}
	return found && endpoint.Status == domain.StatusDisabled, nil
}

// viewDelivery converts the current delivery of an event. A delivery that is not pending is not
// held.
func viewDelivery(r readmodel.Event, held bool) client.Delivery {
	held = held && r.State.Pending()
	v := client.Delivery{
		State:      string(r.State),
		Held:       held,
		EndpointID: r.EndpointID,
		Sequence:   unlessZero(signed(r.Sequence)),
	}
	if r.State.Pending() && !held {
		v.NextAttemptAt = instant(r.NextAttemptAtMillis)
	}
	return v
}

// viewEvent returns the event's body byte for byte as receivers got it, with the fields of part
// added at the end.
func viewEvent(body []byte, part any) (jsontext.Value, error) {
	envelope := bytes.TrimSpace(body)
	if len(envelope) < len(`{"":0}`) || envelope[0] != '{' || !jsontext.Value(envelope).IsValid() {
		return nil, errors.New("the body in the history is not a JSON object")
	}
	added, err := marshal(part)
	if err != nil {
		return nil, err
	}
	shown := make([]byte, 0, len(envelope)+len(added))
	shown = append(shown, envelope[:len(envelope)-1]...)
	shown = append(shown, ',')
	return append(shown, added[1:]...), nil
}

func viewAttempt(a readmodel.Attempt) client.Attempt {
	return client.Attempt{
		Number:       a.Number,
		Run:          a.Run,
		EndpointID:   a.EndpointID,
		SentAt:       at(a.Result.SentAtMillis),
		DurationMs:   a.Result.DurationMillis,
		StatusCode:   unlessZero(a.Result.StatusCode),
		Error:        nullable(a.Result.Error),
		ErrorDetail:  unlessZero(a.Result.ErrorDetail),
		ResponseBody: strings.ToValidUTF8(string(withoutCutRune(a.Result.ResponseBody)), "\uFFFD"),
	}
}

const storedBodyBytes = 1024

// withoutCutRune removes an incomplete last character. The receiver sent the rest, but it was not
// stored.
func withoutCutRune(body []byte) []byte {
	if len(body) < storedBodyBytes {
		return body
	}
	for i := len(body) - 1; i > len(body)-utf8.UTFMax; i-- {
		if utf8.RuneStart(body[i]) {
			if !utf8.FullRune(body[i:]) {
				return body[:i]
			}
			break
		}
	}
	return body
}
