package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// historyRetrySeconds is after how long a read of the history may be repeated.
const historyRetrySeconds = 2

// deliveryPart is what GET /v1/events/{id} adds to the envelope.
type deliveryPart struct {
	Delivery deliveryView  `json:"delivery"`
	Attempts []attemptView `json:"attempts"`
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
	SentAt       string               `json:"sentAt"`
	DurationMs   int64                `json:"durationMs"`
	StatusCode   *int                 `json:"statusCode"`
	Error        *domain.AttemptError `json:"error"`
	ResponseBody string               `json:"responseBody"`
}

func (a *API) getEvent(ctx context.Context, x *exchange) (reply, *Problem) {
	id := mux.Vars(x.request)["id"]
	if !domain.IsID(domain.EventPrefix, id) {
		return reply{}, eventNotFound()
	}
	record, err := a.History.Event(ctx, x.caller.accountID, id)
	switch {
	case errors.Is(err, ErrEventNotFound):
		return reply{}, eventNotFound()
	case errors.Is(err, ErrHistoryBehind):
		return reply{}, newProblem(codeHistoryBehind, "The history has not caught up, so it cannot tell whether the event exists. Repeat the request after the time in Retry-After.").retryAfter(historyRetrySeconds).because(err)
	case errors.Is(err, ErrHistoryUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return reply{}, newProblem(codeHistoryUnavailable, "The history cannot be read now; payments are observed and delivered all the same. Repeat the request after the time in Retry-After.").retryAfter(historyRetrySeconds).because(err)
	case err != nil:
		return reply{}, internal(fmt.Errorf("reading an event: %w", err))
	}
	held, err := a.held(record)
	if err != nil {
		return reply{}, internal(err)
	}
	body, err := viewEvent(record, held)
	if err != nil {
		return reply{}, internal(fmt.Errorf("showing the event %s: %w", id, err))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func eventNotFound() *Problem {
	return newProblem(codeNotFound, "Your account has no event with this id.")
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

// viewEvent writes the envelope as its receivers got it, byte for byte, and the
// delivery behind its last field.
func viewEvent(r EventRecord, held bool) ([]byte, error) {
	envelope := bytes.TrimSpace(r.Body)
	if len(envelope) < len(`{"":0}`) || envelope[0] != '{' || !jsontext.Value(envelope).IsValid() {
		return nil, errors.New("the body in the history is not a JSON object")
	}
	part := deliveryPart{Delivery: deliveryView{State: r.State, Held: held, EndpointID: r.EndpointID}}
	if r.State.Pending() && r.NextAttemptAtMillis != 0 {
		at := domain.FormatMillis(r.NextAttemptAtMillis)
		part.Delivery.NextAttemptAt = &at
	}
	for _, attempt := range r.Attempts {
		part.Attempts = append(part.Attempts, viewAttempt(attempt))
	}
	added, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, len(envelope)+len(added))
	body = append(body, envelope[:len(envelope)-1]...)
	body = append(body, ',')
	return append(body, added[1:]...), nil
}

func viewAttempt(a AttemptRecord) attemptView {
	v := attemptView{
		Number: a.Number, Run: a.Run, SentAt: domain.FormatMillis(a.Result.SentAtMillis), DurationMs: a.Result.DurationMillis,
		ResponseBody: strings.ToValidUTF8(string(a.Result.ResponseBody), "\uFFFD"),
	}
	if a.Result.StatusCode != 0 {
		v.StatusCode = &a.Result.StatusCode
	}
	if a.Result.Error != "" {
		v.Error = &a.Result.Error
	}
	return v
}
