package api

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// resendEvent sends the command to the event's first endpoint, and follows the event from there:
// each endpoint knows where it has moved the event, or learns it from the history. A retry of the
// request therefore takes the same path and gets the same answers. A history that is being refilled
// may not know the first endpoint yet.
//
// For a link for one endpoint, only that endpoint gets the command. The history has shown that the
// event is there, and the endpoint knows whether it has moved since.
func (a *API) resendEvent(ctx context.Context, r *request) (reply, error) {
	if err := a.findForResend(ctx, r); err != nil {
		return reply{}, err
	}
	if len(r.recalled.Deliveries) == 0 {
		return reply{}, historyError(fmt.Errorf("%w: it lacks one of the event's first deliveries",
			readmodel.ErrBehind))
	}
	envelope := r.sent()
	to, err := a.presentEndpoint(ctx, r, envelope.Data.Watch.ID)
	if err != nil {
		return reply{}, err
	}
	body := domain.ResendEvent{
		EndpointID:   cmp.Or(r.caller.endpointID, r.recalled.Deliveries[0].EndpointID),
		EventID:      r.subjectID,
		ToEndpointID: to,
	}
	commandID := r.commandID
	for range domain.MaxMoves + 1 {
		body.Remembered = r.remembered(body.EndpointID, envelope)
		result, err := a.submitAs(ctx, r, commandID, body)
		if isProblem(err, domain.CodeNotFound) {
			return a.unknownAt(r, body, problem.Of(err).Replayed)
		}
		delivery, err := partOf(result, err, result.Answer.Delivery)
		switch {
		case err != nil:
			return reply{}, err
		case delivery.MovedTo != "" && !r.caller.sees(delivery.MovedTo):
			return reply{}, noSuch("event")
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

// sentEnvelope holds the fields of an event's body that a resend needs. A test.ping has no watch.
type sentEnvelope struct {
	Type domain.EventType `json:"type"`
	Data struct {
		Watch struct {
			ID string `json:"id"`
		} `json:"watch"`
	} `json:"data"`
}

func (r *request) sent() (e sentEnvelope) {
	if json.Unmarshal(r.recalled.Body, &e) != nil {
		return sentEnvelope{} // cannot happen: the body is ours
	}
	if e.Data.Watch.ID == domain.SampleWatchID {
		return sentEnvelope{Type: domain.TestPing}
	}
	return e
}

// remembered returns what the history knows of the event at an endpoint.
func (r *request) remembered(endpointID string, envelope sentEnvelope) *domain.Remembered {
	known := &domain.Remembered{Body: r.recalled.Body, AsOf: r.recalled.AsOf(endpointID)}
	for _, d := range r.recalled.Deliveries {
		if d.EndpointID == endpointID {
			known.Delivery = d
			known.Delivery.EventType, known.Delivery.WatchID = envelope.Type, envelope.Data.Watch.ID
		}
	}
	return known
}

// unknownAt responds for an endpoint that does not have the event. The first endpoint once had it,
// so it is only in the history now and can no longer be sent. A later endpoint is about to receive
// it.
func (a *API) unknownAt(r *request, asked domain.ResendEvent, replayed bool) (reply, error) {
	if asked.EndpointID != r.recalled.Deliveries[0].EndpointID {
		return a.resent(r, onItsWay(asked.EndpointID), replayed)
	}
	gone := expired()
	gone.Replayed = replayed
	return reply{}, gone
}

// onItsWay returns the delivery of an event that is moving to an endpoint.
func onItsWay(endpointID string) domain.Delivery {
	return domain.Delivery{EndpointID: endpointID, State: domain.StateQueued}
}

func (a *API) resent(r *request, d domain.Delivery, replayed bool) (reply, error) {
	record := readmodel.Event{
		State:               d.State,
		EndpointID:          d.EndpointID,
		Sequence:            d.Sequence,
		NextAttemptAtMillis: d.NextAttemptAtMillis,
	}
	held, err := a.held(record)
	view := client.Resent{ID: r.subjectID, Delivery: viewDelivery(record, held)}
	return reply{view: view, replayed: replayed}, err
}

// presentEndpoint returns the current endpoint of the event's watch, or "" if there is none.
func (a *API) presentEndpoint(ctx context.Context, r *request, watchID string) (string, error) {
	if watchID == "" {
		return "", nil
	}
	endpoint, found, err := lookUp(ctx, a, "endpoint of an event's watch",
		func() (domain.Endpoint, bool, error) {
			watch, found, err := a.ownWatch(r, watchID)
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
