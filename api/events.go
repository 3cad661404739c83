package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// historyRetrySeconds is after how long a read of the history may be repeated.
const historyRetrySeconds = 2

// deliveryPart is what GET /v1/events/{id} adds to the envelope.
type deliveryPart struct {
	Delivery      deliveryView  `json:"delivery"`
	Attempts      []attemptView `json:"attempts"`
	HistoryBehind bool          `json:"historyBehind"`
}

type deliveryView struct {
	State         domain.DeliveryState `json:"state"`
	Held          bool                 `json:"held"`
	EndpointID    string               `json:"endpointId"`
	NextAttemptAt *string              `json:"nextAttemptAt"`
}

type attemptView struct {
	Number       int                  `json:"number"`
	Run          int                  `json:"run"`
	EndpointID   string               `json:"endpointId"`
	SentAt       string               `json:"sentAt"`
	DurationMs   int64                `json:"durationMs"`
	StatusCode   *int                 `json:"statusCode"`
	Error        *domain.AttemptError `json:"error"`
	ResponseBody string               `json:"responseBody"`
}

func (a *API) getEvent(ctx context.Context, x *exchange) (reply, *Problem) {
	a.awaitOwnWrites(ctx, x.caller.accountID)
	record, problem := a.readEvent(ctx, x)
	if problem != nil {
		return reply{}, problem
	}
	held, err := a.held(record)
	if err != nil {
		return reply{}, internal(err)
	}
	part := deliveryPart{
		Delivery:      viewDelivery(record.State, held, record.EndpointID, record.NextAttemptAtMillis),
		Attempts:      make([]attemptView, len(record.Attempts)),
		HistoryBehind: record.Behind,
	}
	for i, attempt := range record.Attempts {
		part.Attempts[i] = viewAttempt(attempt)
	}
	body, err := viewEvent(record.Body, part)
	if err != nil {
		return reply{}, internal(fmt.Errorf("showing the event %s: %w", mux.Vars(x.request)["id"], err))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

// listedPart is what a list adds to the envelope.
type listedPart struct {
	Delivery deliveryView `json:"delivery"`
}

func (a *API) listEvents(ctx context.Context, x *exchange) (reply, *Problem) {
	q := newQuery(x, "endpointId", "watchId", "walletAddress", "type", "state", "since", "until")
	f := EventFilter{
		AccountID:     x.caller.accountID,
		EndpointID:    q.id("endpointId", domain.EndpointPrefix),
		WatchID:       q.id("watchId", domain.WatchPrefix),
		WalletAddress: q.wallet("walletAddress"),
		Type:          oneOf(q, "type", domain.PaymentReceived, domain.PaymentRejected, domain.TestPing),
		State: oneOf(q, "state", domain.StateQueued, domain.StateWaiting, domain.StateDelivered,
			domain.StateFailed, domain.StateCancelled),
		SinceMillis: q.time("since"),
		UntilMillis: q.time("until"),
	}
	if f.SinceMillis != 0 && f.UntilMillis != 0 && f.UntilMillis <= f.SinceMillis {
		q.fault("until", faultRangeIsEmpty, "must be later than since")
	}
	after, limit, problem := a.page(x, q)
	if problem != nil {
		return reply{}, problem
	}
	a.awaitOwnWrites(ctx, x.caller.accountID)
	page, next, err := a.History.Events(ctx, f, after, limit)
	if problem := historyProblem(err); problem != nil {
		return reply{}, problem
	}
	views := make([]jsontext.Value, 0, len(page))
	known := make(map[string]bool)
	for _, record := range page {
		held, looked := known[record.EndpointID]
		if !looked && record.State.Pending() {
			if held, err = a.held(record); err != nil {
				return reply{}, internal(err)
			}
			known[record.EndpointID] = held
		}
		held = held && record.State.Pending()
		view, err := viewEvent(record.Body,
			listedPart{viewDelivery(record.State, held, record.EndpointID, record.NextAttemptAtMillis)})
		if err != nil { // the others can be shown all the same
			a.Log.Error("an event cannot be shown and is left out of a list: `lumenhook rebuild --table "+
				"events` reads its body anew",
				"event", record.ID, "account", x.caller.accountID, "error", err)
			continue
		}
		views = append(views, view)
	}
	return listReply(a, x, q, views, next)
}

// held tells whether a delivery that is still to be made waits for its endpoint
// to be enabled.
func (a *API) held(r EventRecord) (bool, error) {
	if !r.State.Pending() {
		return false, nil
	}
	endpoint, found, err := a.Directory.Endpoint(r.EndpointID)
	if err != nil {
		return false, fmt.Errorf("looking up the endpoint of an event: %w", err)
	}
	return found && endpoint.Status == domain.StatusDisabled, nil
}

func viewDelivery(
	state domain.DeliveryState, held bool, endpointID string,
	nextAttemptAtMillis int64,
) deliveryView {
	v := deliveryView{State: state, Held: held, EndpointID: endpointID}
	if state.Pending() && !held && nextAttemptAtMillis != 0 {
		at := domain.FormatMillis(nextAttemptAtMillis)
		v.NextAttemptAt = &at
	}
	return v
}

// viewEvent writes the envelope as its receivers got it, byte for byte, and the
// fields of the part behind its last one.
func viewEvent(body []byte, part any) (jsontext.Value, error) {
	envelope := bytes.TrimSpace(body)
	if len(envelope) < len(`{"":0}`) || envelope[0] != '{' || !jsontext.Value(envelope).IsValid() {
		return nil, errors.New("the body in the history is not a JSON object")
	}
	added, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	shown := make([]byte, 0, len(envelope)+len(added))
	shown = append(shown, envelope[:len(envelope)-1]...)
	shown = append(shown, ',')
	return append(shown, added[1:]...), nil
}

func viewAttempt(a AttemptRecord) attemptView {
	v := attemptView{
		Number:       a.Number,
		Run:          a.Run,
		EndpointID:   a.EndpointID,
		SentAt:       domain.FormatMillis(a.Result.SentAtMillis),
		DurationMs:   a.Result.DurationMillis,
		ResponseBody: strings.ToValidUTF8(string(withoutCutRune(a.Result.ResponseBody)), "\uFFFD"),
	}
	if a.Result.StatusCode != 0 {
		v.StatusCode = &a.Result.StatusCode
	}
	if a.Result.Error != "" {
		v.Error = &a.Result.Error
	}
	return v
}

// storedBodyBytes is how much of a response is kept.
const storedBodyBytes = 1024

// withoutCutRune leaves out the beginning of a last character whose rest was not
// kept: the receiver sent it whole.
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
