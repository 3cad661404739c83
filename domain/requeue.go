package domain

// MaxReplay is how many deliveries one replay queues (specification, "Limits").
const MaxReplay = 1000

// RequeueReason says what queued a delivery again.
type RequeueReason string

// Reasons for queueing again.
const (
	RequeueReplay RequeueReason = "replay"
	RequeueResend RequeueReason = "resend"
)

// Replayable reports whether a replay may queue the delivery: it FAILED, and is
// no test.ping, which nobody misses.
func (d Delivery) Replayable() bool { return d.State == StateFailed && d.EventType != TestPing }

// takes reports whether a replay is about the delivery. The span is held against
// the event's createdAt, which is what people see of it.
func (c ReplayEndpoint) takes(d Delivery) bool {
	ended := c.UntilMillis != 0 && d.CreatedAtMillis >= c.UntilMillis
	return d.Replayable() && d.CreatedAtMillis >= c.SinceMillis && !ended
}

// DecideReplay answers a request to queue failed deliveries again. Candidates
// are those of the endpoint that are [Delivery.Replayable] and whose events were
// created in the span, oldest first, at least the first [MaxReplay] of them;
// matched is how many there are in all. They queue on a disabled endpoint too,
// and wait there. Their first attempts begin oldest first as well.
func DecideReplay(endpoint Endpoint, accountID string, c ReplayEndpoint, candidates []Delivery, matched int, nowMillis int64) ([]FactBody, ReplayResult, *Rejection) {
	if !endpoint.visibleTo(accountID) {
		return nil, ReplayResult{}, noEndpoint()
	}
	var facts []FactBody
	for _, d := range candidates {
		if len(facts) == MaxReplay {
			break
		}
		if c.takes(d) {
			// A millisecond apart: attempts begin in the order of their time.
			facts = append(facts, d.requeued(RequeueReplay, nowMillis+int64(len(facts))))
		}
	}
	result := ReplayResult{Queued: len(facts), Matched: max(matched, len(facts))}
	result.Truncated = result.Matched > result.Queued
	return facts, result, nil
}

// DecideResend answers a request to send one event again. A delivery that is
// queued, or of which an attempt is under way, is on its way already and is not
// doubled: no fact. Only who runs the attempts knows what is in flight.
func DecideResend(endpoint Endpoint, delivery Delivery, accountID string, c ResendEvent, inFlight bool, nowMillis int64) ([]FactBody, *Rejection) {
	switch {
	case !delivery.Exists() || delivery.AccountID != accountID || delivery.EndpointID != c.EndpointID:
		return nil, &Rejection{Code: CodeNotFound, Detail: "there is no such event"}
	case delivery.State == StateCancelled, delivery.State.Pending() && endpoint.Deleted():
		return nil, &Rejection{Code: CodeDeliveryCancelled, Detail: "the delivery was cancelled, because its endpoint was deleted; it cannot be sent again"}
	case endpoint.Deleted():
		return nil, &Rejection{Code: CodeEndpointDeleted, Detail: "the endpoint that the event was sent to was deleted; the event cannot be sent again"}
	case delivery.State == StateQueued, inFlight:
		return nil, nil
	}
	return []FactBody{delivery.requeued(RequeueResend, nowMillis)}, nil
}

func (d Delivery) requeued(reason RequeueReason, nowMillis int64) DeliveryRequeued {
	return DeliveryRequeued{EventID: d.EventID, Run: d.Run + 1, NextAttemptAtMillis: nowMillis, Reason: reason}
}
