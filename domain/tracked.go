package domain

// TrackedDelivery is an event's delivery after a fact, as shown in its history: including the
// effects of its endpoint's facts. An event that was handed over continues at the next endpoint.
type TrackedDelivery struct {
	Delivery
	Reason      RequeueReason // of the run; empty: the event's first run at the endpoint
	LastAttempt AttemptMade   // at the endpoint; zero without an attempt

	endpoint Endpoint
	// epochMillis is when the endpoint's epoch was counted up last: what waited is due since.
	epochMillis int64
}

// Evolve applies one fact of the event, or of its current or next endpoint. Facts of one endpoint
// follow those of another: they are not mixed.
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
	default: // nothing that the delivery does not hold
	}
	return t
}

// Held reports whether the delivery waits for its endpoint to be enabled.
func (t TrackedDelivery) Held() bool {
	return t.State.Pending() && t.endpoint.Status == StatusDisabled
}

// DueMillis is when the next attempt is due; 0: none is. Enabling an endpoint makes due at once
// what waited for it (G3).
func (t TrackedDelivery) DueMillis() int64 {
	switch {
	case !t.State.Pending() || t.Held() || t.endpoint.Deleted():
		return 0
	case t.EndpointEpoch != t.endpoint.Epoch:
		return min(t.NextAttemptAtMillis, t.epochMillis)
	}
	return t.NextAttemptAtMillis
}

// Precedes reports whether a fact may come next. If not, facts between are missing.
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
		return allowed && t.Exists() // a recall begins the state of an engine, and no history
	default:
		return next.endpoint.Exists()
	}
}

// KeptOfDelivery returns the fact as the history keeps it, without the event's body. It is false
// for a fact that the history's rows of events and attempts tell, which nearly all are: a delivery
// that succeeds has no other. What a further endpoint gets of an event is in no such row.
func (f Fact) KeptOfDelivery() (Fact, bool) {
	switch body := f.Body.(type) {
	case DeliveryCreated:
		if body.Moved.Moves == 0 {
			return Fact{}, false // before it is copied: each delivery has one
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
