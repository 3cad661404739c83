package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// resentView is what a resend made of a delivery.
type resentView struct {
	ID       string       `json:"id"`
	Delivery deliveryView `json:"delivery"`
}

// resendEvent asks the endpoint that the event went to at first, and follows the
// event from there: each endpoint knows where it has handed it over to. So a
// repeat of the request goes the same way and gets the same answers. A history
// that is built anew may not know the first endpoint yet.
func (a *API) resendEvent(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	if x.event.FirstEndpointID == "" {
		return reply{}, historyProblem(fmt.Errorf("%w: it has the event's hand-over and not its first "+
			"delivery", ErrHistoryBehind))
	}
	to, problem := a.presentEndpoint(ctx, x)
	if problem != nil {
		return reply{}, problem
	}
	body := domain.ResendEvent{
		EndpointID:   x.event.FirstEndpointID,
		EventID:      mux.Vars(x.request)["id"],
		ToEndpointID: to,
	}
	for range domain.MaxMoves + 1 {
		command.Body = body
		result, problem := a.submit(ctx, x, command)
		if problem != nil && problem.Code == domain.CodeNotFound {
			return a.unknownAt(x, body, problem)
		}
		delivery, problem := answerOf(result, problem, command, result.Answer.Delivery)
		switch {
		case problem != nil:
			return reply{}, problem
		case delivery.MovedTo == "":
			return a.resent(body.EventID, *delivery, result.Replayed)
		case delivery.MovedBy == command.ID:
			return a.resent(body.EventID, onItsWay(delivery.MovedTo), result.Replayed)
		}
		body.EndpointID = delivery.MovedTo
		command.ID = domain.DeriveID(domain.CommandPrefix, command.ID, body.EndpointID)
	}
	return reply{}, internal(fmt.Errorf("the event %s went on at more than %d endpoints", body.EventID,
		domain.MaxMoves+1))
}

// unknownAt answers for an endpoint that does not have the event. The first one
// had it once, and the history still has: it is kept for reading only. A later one
// is about to have it.
func (a *API) unknownAt(x *exchange, asked domain.ResendEvent, problem *Problem) (reply, *Problem) {
	if asked.EndpointID != x.event.FirstEndpointID {
		return a.resent(asked.EventID, onItsWay(asked.EndpointID), problem.replayed)
	}
	expired := newProblem(codeEventExpired,
		"The event is too old to be sent again: it is kept in the history only.")
	expired.replayed = problem.replayed
	return reply{}, expired
}

// onItsWay is the delivery of an event that is handed over to an endpoint.
func onItsWay(endpointID string) domain.Delivery {
	return domain.Delivery{EndpointID: endpointID, State: domain.StateQueued}
}

func (a *API) resent(eventID string, d domain.Delivery, replayed bool) (reply, *Problem) {
	held, err := a.held(EventRecord{State: d.State, EndpointID: d.EndpointID})
	if err != nil {
		return reply{}, internal(err)
	}
	view := viewDelivery(d.State, held, d.EndpointID, d.NextAttemptAtMillis)
	answer, problem := jsonReply(http.StatusOK, resentView{eventID, view})
	answer.replayed = replayed
	return answer, problem
}

// presentEndpoint is the endpoint that the event's watch names, empty when there
// is none to send to.
func (a *API) presentEndpoint(ctx context.Context, x *exchange) (string, *Problem) {
	var sent struct {
		Data struct {
			Watch struct {
				ID string `json:"id"`
			} `json:"watch"`
		} `json:"data"`
	}
	if err := json.Unmarshal(x.event.Body, &sent); err != nil || sent.Data.Watch.ID == "" {
		return "", nil // a test.ping is of no watch
	}
	account := x.caller.accountID
	endpoint, _, problem := lookUp(ctx, a, "the endpoint of an event's watch",
		func() (string, bool, error) {
			watch, found, err := a.Directory.Watch(sent.Data.Watch.ID)
			if err != nil || !found || watch.Deleted() || watch.AccountID != account {
				return "", false, err
			}
			endpoint, found, err := a.Directory.Endpoint(watch.EndpointID)
			if err != nil || !found || endpoint.Deleted() || endpoint.AccountID != account {
				return "", false, err
			}
			return endpoint.ID, true, nil
		})
	return endpoint, problem
}
