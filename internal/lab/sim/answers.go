package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// answered checks the answer to a command about an endpoint against the specification, with the
// reference model.
func (m *referenceModel) answered(
	endpointID string, e *referenceEndpoint, h domain.CommandHandled,
) error {
	requeued := m.requeued[h.CommandID]
	delete(m.requeued, h.CommandID)
	cmd := m.world.clients.byID[h.CommandID]
	if cmd == nil {
		return fmt.Errorf("an answer to %s, which nobody asked", h.CommandID)
	}
	if r := h.Answer.Rejection; r != nil {
		if err := m.refused(endpointID, e, cmd, r.Code); err != nil {
			return fmt.Errorf("%s is refused with %s: %w", cmd.Body.CommandType(), r.Code, err)
		}
		return nil
	}
	_, creates := cmd.Body.(domain.CreateEndpoint)
	if !creates && cmd.AccountID != m.ownerOf(endpointID, e, cmd) {
		return fmt.Errorf("%s of another account's endpoint is not refused", cmd.Body.CommandType())
	}
	if err := m.done(endpointID, e, cmd, h.Answer, requeued); err != nil {
		return fmt.Errorf("%s is answered, and %w", cmd.Body.CommandType(), err)
	}
	return nil
}

// ownerOf returns the account that may issue a command: the endpoint's or, for a resent event, the
// delivery's. They differ if an endpoint that a watch still named was lost in a disaster. The
// watch's matches were then cancelled, and their account may send them to another endpoint.
func (m *referenceModel) ownerOf(endpointID string, e *referenceEndpoint, cmd *issued) string {
	if resend, resends := cmd.Body.(domain.ResendEvent); resends {
		if d := m.deliveries[deliveryID{endpointID, resend.EventID}]; d != nil {
			return d.account
		}
	}
	return e.account
}

// refused checks that a rejection has a valid reason.
func (m *referenceModel) refused(
	endpointID string, e *referenceEndpoint, cmd *issued, code string,
) error {
	known := !e.deleted && cmd.AccountID == e.account
	resend, resends := cmd.Body.(domain.ResendEvent)
	d := m.deliveries[deliveryID{endpointID, resend.EventID}]
	switch {
	case code == domain.CodeNotFound && !known:
	case code == domain.CodeNotFound && resends && d == nil:
	case code == domain.CodeAlreadyExists: // its answer was forgotten
	case code == domain.CodePreconditionFailed && known:
	case code == domain.CodeEndpointDisabled && known && !e.active:
	case code == domain.CodeEndpointDeleted && e.deleted:
	case resends && d != nil && d.movedTo == "" && m.staysCancelled(e, d, resend, code):
	default:
		return errors.New("nothing is the matter")
	}
	return nil
}

// staysCancelled reports whether an event cannot continue at another endpoint for the reason given
// by code.
func (m *referenceModel) staysCancelled(
	e *referenceEndpoint, d *referenceDelivery, c domain.ResendEvent, code string,
) bool {
	cancelled := d.state == domain.StateCancelled
	switch code {
	case domain.CodeDeliveryCancelled:
		return (d.test || d.notice) && (cancelled || e.deleted)
	case domain.CodeDeliveryEnding:
		return e.deleted && d.pending() ||
			cancelled && m.world.checks.underWay(deliveryID{c.EndpointID, c.EventID})
	case domain.CodeNoEndpoint:
		return cancelled && (c.ToEndpointID == "" || slices.Contains(d.former, c.ToEndpointID))
	}
	return false
}

// done checks that a command that was not rejected has taken effect.
func (m *referenceModel) done(
	endpointID string, e *referenceEndpoint, cmd *issued, a domain.Answer,
	requeued []deliveryID,
) error {
	wrong := func(is bool, what string) error {
		if is {
			return errors.New(what)
		}
		return nil
	}
	switch body := cmd.Body.(type) {
	case domain.UpdateEndpoint:
		return wrong(body.Change.URL != nil && e.url != *body.Change.URL, "the url is another")
	case domain.EnableEndpoint:
		return wrong(!e.active, "the endpoint is not active")
	case domain.DisableEndpoint:
		return wrong(e.active, "the endpoint is active")
	case domain.DeleteEndpoint:
		return wrong(!e.deleted, "the endpoint is there")
	case domain.RotateSecret:
		return wrong(e.secrets[len(e.secrets)-1].sealed != string(body.SealedSecret),
			"the secret is another")
	case domain.TestEndpoint:
		d := m.deliveries[deliveryID{endpointID, a.Test.EventID}]
		return wrong(d == nil || !d.test || d.attempts == 0 || !same(d.first, a.Test.Result),
			"it is not the first attempt")
	case domain.ResendEvent:
		id := deliveryID{endpointID, body.EventID}
		d := m.deliveries[id]
		onItsWay := d.state == domain.StateQueued || m.world.checks.underWay(id)
		if a.Delivery.MovedTo != "" { // its attempt may be in flight in the same partition
			onItsWay = d.movedTo != "" || d.next != ""
		}
		return wrong(a.Delivery.EventID != body.EventID || !onItsWay, "the event is not on its way")
	case domain.ReplayEndpoint:
		return m.replayed(endpointID, e, body, *a.Replay, requeued)
	case domain.ReplayEvents:
		for _, event := range body.EventIDs {
			if d := m.deliveries[deliveryID{endpointID, event}]; d != nil && !d.test &&
				d.state == domain.StateFailed {
				return fmt.Errorf("%s was chosen and is left out", event)
			}
		}
		return wrong(a.Replay.Queued != len(requeued) || a.Replay.Matched != body.Matched ||
			a.Replay.Truncated, "it is not what was queued")
	default:
		return nil
	}
}

// replayed checks that a replay has left out no delivery. A run has fewer deliveries than the limit
// of a replay.
func (m *referenceModel) replayed(
	endpointID string, e *referenceEndpoint, c domain.ReplayEndpoint,
	r domain.ReplayResult, requeued []deliveryID,
) error {
	for _, event := range e.events {
		if d := m.deliveries[deliveryID{endpointID, event}]; isFor(c, d) {
			return fmt.Errorf("%s of %d is left out", event, d.createdAtMillis)
		}
	}
	if n := len(requeued); r.Queued != n || r.Matched != n || r.Truncated {
		return fmt.Errorf("%d were queued, and %+v is told", n, r)
	}
	return nil
}
