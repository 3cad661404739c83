package api

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// resentView is a delivery after a resend.
type resentView struct {
	ID       string       `json:"id"`
	Delivery deliveryView `json:"delivery"`
}

// resendEvent asks the event's first endpoint, and follows the event from there: each
// endpoint knows where it has handed it over to. So a repeat of the request goes the same
// way and gets the same answers. A history that is being refilled may not know the first
// endpoint yet.
func (a *API) resendEvent(ctx context.Context, r *request) (reply, error) {
	if r.event.FirstEndpointID == "" {
		return reply{}, historyError(fmt.Errorf("%w: it has the event's hand-over and not its first "+
			"delivery", ErrHistoryBehind))
	}
	to, err := a.presentEndpoint(ctx, r)
	if err != nil {
		return reply{}, err
	}
	body := domain.ResendEvent{
		EndpointID:   r.event.FirstEndpointID,
		EventID:      r.subjectID,
		ToEndpointID: to,
	}
	commandID := r.commandID
	for range domain.MaxMoves + 1 {
		result, err := a.submitAs(ctx, r, commandID, body)
		if isProblem(err, domain.CodeNotFound) {
			return a.unknownAt(r, body, problem.Of(err).Replayed)
		}
		delivery, err := partOf(result, err, result.Answer.Delivery)
		switch {
		case err != nil:
			return reply{}, err
		case delivery.MovedTo == "":
			return a.resent(r, *delivery, result.Replayed)
		case delivery.MovedBy == commandID:
			return a.resent(r, onItsWay(delivery.MovedTo), result.Replayed)
		}
		body.EndpointID = delivery.MovedTo
		commandID = domain.DeriveID(domain.CommandPrefix, commandID, body.EndpointID)
	}
	return reply{}, fmt.Errorf("the event %s went on at more than %d endpoints", body.EventID,
		domain.MaxMoves+1)
}

// unknownAt answers for an endpoint that does not have the event. The first one had it
// once, and the history still has: it is only readable now. A later one is about to receive
// it.
func (a *API) unknownAt(r *request, asked domain.ResendEvent, replayed bool) (reply, error) {
	if asked.EndpointID != r.event.FirstEndpointID {
		return a.resent(r, onItsWay(asked.EndpointID), replayed)
	}
	expired := problem.New(problem.CodeEventExpired,
		"The event is too old to be sent again: it is kept in the history only.")
	expired.Replayed = replayed
	return reply{}, expired
}

// onItsWay is the delivery of an event that is being handed over to an endpoint.
func onItsWay(endpointID string) domain.Delivery {
	return domain.Delivery{EndpointID: endpointID, State: domain.StateQueued}
}

func (a *API) resent(r *request, d domain.Delivery, replayed bool) (reply, error) {
	record := EventRecord{
		State:               d.State,
		EndpointID:          d.EndpointID,
		NextAttemptAtMillis: d.NextAttemptAtMillis,
	}
	held, err := a.held(record)
	view := resentView{r.subjectID, viewDelivery(record, held)}
	return reply{view: view, replayed: replayed}, err
}

// presentEndpoint returns the endpoint that the event's watch names, empty when there is
// none to send to.
func (a *API) presentEndpoint(ctx context.Context, r *request) (string, error) {
	var sent struct {
		Data struct {
			Watch struct {
				ID string `json:"id"`
			} `json:"watch"`
		} `json:"data"`
	}
	if err := json.Unmarshal(r.event.Body, &sent); err != nil || sent.Data.Watch.ID == "" {
		return "", nil // a test.ping has no watch
	}
	endpoint, found, err := lookUp(ctx, a, "endpoint of an event's watch",
		func() (domain.Endpoint, bool, error) {
			watch, found, err := a.ownWatch(r, sent.Data.Watch.ID)
			if err != nil || !found {
				return domain.Endpoint{}, false, err
			}
			return a.ownEndpoint(r, watch.EndpointID)
		})
	if err != nil || !found {
		return "", err
	}
	return endpoint.ID, nil
}
