package domain

// TrackedDelivery is the delivery of an event as shown in its history, including the effects of its
// endpoint's facts. If the event is handed over, it continues with the next endpoint.
type TrackedDelivery struct {
	Delivery
	Reason      RequeueReason // reason for the run; empty for the first run at the endpoint
	LastAttempt AttemptMade   // at this endpoint; zero if there is none

	endpoint Endpoint
	// When the endpoint's epoch last changed. Deliveries that waited have been due since then.
	epochMillis int64
}

// Evolve applies a fact of the event or its endpoint. Facts of two endpoints don't interleave.
func (t TrackedDelivery) Evolve(f Fact) TrackedDelivery {
	if f.Aggregate != t.endpoint.ID {
		t.endpoint, t.epochMillis = Endpoint{}, 0
	}
	epoch := t.endpoint.Epoch
	t.endpoint, t.Delivery = EvolveEndpoint(t.endpoint, t.Delivery, f)
	if t.endpoint.Epoch != epoch {
		t.epochMillis = f.AtMillis
	}
	switch body := f.Body.(type) {
	case DeliveryCreated:
		t.Reason, t.LastAttempt = "", AttemptMade{}
	case DeliveryRequeued:
		t.Reason = body.Reason
	case AttemptMade:
		t.LastAttempt = body
	default:
	}
	return t
}

// Held reports whether the delivery waits for its endpoint to be enabled.
func (t TrackedDelivery) Held() bool {
	return t.State.Pending() && t.endpoint.Status == StatusDisabled
}

// DueMillis returns when the next attempt is due, or 0 if there is none. Deliveries that waited for
// the endpoint to be enabled are due immediately (G3).
func (t TrackedDelivery) DueMillis() int64 {
	switch {
	case !t.State.Pending() || t.Held() || t.endpoint.Deleted():
		return 0
	case t.EndpointEpoch != t.endpoint.Epoch:
		return min(t.NextAttemptAtMillis, t.epochMillis)
	}
	return t.NextAttemptAtMillis
}

// Precedes reports whether f may be the next fact. If not, facts in between are missing.
func (t TrackedDelivery) Precedes(f Fact) bool {
	next := t.Evolve(f)
	allowed := t.State.Allows(f.Body, next.State)
	switch body := f.Body.(type) {
	case DeliveryCreated:
		if !t.Exists() {
			return body.Moved.Moves == 0
		}
		return t.MovedTo == body.EndpointID && body.Moved.Moves == t.Moves+1
	case AttemptMade:
		return allowed && body.Run == t.Run && body.Number == t.Attempts+1 && t.endpoint.ID == f.Aggregate
	case DeliveryRequeued:
		return allowed && body.Run == t.Run+1 && t.endpoint.ID == f.Aggregate
	case DeliveryRecalled, DeliveryCancelled, DeliveryMoved:
		return allowed && t.Exists() // a recall starts an engine's state, not a history
	default:
		return next.endpoint.Exists()
	}
}

// KeptOfDelivery returns the fact as the history stores it, without the event's body. It returns
// false for facts that can be derived from the history's rows of events and attempts. That includes
// all facts of a delivery that succeeds. A handover to another endpoint can't be derived.
func (f Fact) KeptOfDelivery() (Fact, bool) {
	switch body := f.Body.(type) {
	case DeliveryCreated:
		if body.Moved.Moves == 0 {
			return Fact{}, false // checked before the copy because every delivery has one
		}
		body.Event.Body = nil
		f.Body = body
	case DeliveryRequeued:
		body.Body = nil
		f.Body = body
	case DeliveryMoved:
		body.Body = nil
		f.Body = body
	case DeliveryRecalled, DeliveryCancelled:
	default:
		return Fact{}, false
	}
	return f, true
}
