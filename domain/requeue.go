package domain

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MaxReplay is how many deliveries one replay queues (specification, "Limits").
const MaxReplay = 1000

// RequeueReason is why a delivery was queued again.
type RequeueReason string

// Reasons for queueing again.
const (
	RequeueReplay RequeueReason = "replay"
	RequeueResend RequeueReason = "resend"
)

// Replayable reports whether a replay may queue the delivery: it FAILED, and is no
// test.ping.
func (d Delivery) Replayable() bool { return d.State == StateFailed && d.EventType != TestPing }

// takes reports whether a replay includes the delivery. The time range applies to the event's
// createdAt, which users see.
func (c ReplayEndpoint) takes(d Delivery) bool {
	ended := c.UntilMillis != 0 && d.CreatedAtMillis >= c.UntilMillis
	return d.Replayable() && d.CreatedAtMillis >= c.SinceMillis && !ended
}

// DecideReplay decides a request to queue failed deliveries again. Candidates are those of
// the endpoint that are [Delivery.Replayable] and whose events were created in the time
// range, oldest first, at least the first [MaxReplay] of them; matched is their total
// number. They are queued on a disabled endpoint too, and wait there. Their first attempts
// begin oldest first as well.
func DecideReplay(
	endpoint Endpoint, accountID string, c ReplayEndpoint, candidates []Delivery,
	matched int, nowMillis int64,
) ([]FactBody, ReplayResult, *Rejection) {
	if !endpoint.visibleTo(accountID) {
		return nil, ReplayResult{}, noEndpoint()
	}
	var facts []FactBody
	for _, d := range candidates {
		if len(facts) == MaxReplay {
			break
		}
		if c.takes(d) {
			// A millisecond apart: attempts begin in the order of their due time.
			facts = append(facts, d.requeued(RequeueReplay, nowMillis+int64(len(facts)), nil))
		}
	}
	result := ReplayResult{Queued: len(facts), Matched: max(matched, len(facts))}
	result.Truncated = result.Matched > result.Queued
	return facts, result, nil
}

// DecideReplayEvents decides a request to queue chosen deliveries again. Candidates are the
// deliveries of the chosen events, in the order of the choice. One that is no longer FAILED, or
// not at the endpoint, is left alone.
func DecideReplayEvents(
	endpoint Endpoint, accountID string, c ReplayEvents, candidates []Delivery, nowMillis int64,
) ([]FactBody, ReplayResult, *Rejection) {
	if !endpoint.visibleTo(accountID) {
		return nil, ReplayResult{}, noEndpoint()
	}
	var facts []FactBody
	queued := make(map[string]bool, len(candidates))
	for _, d := range candidates {
		if len(facts) == MaxReplay {
			break
		}
		if d.Replayable() && d.EndpointID == c.EndpointID && !queued[d.EventID] {
			queued[d.EventID] = true
			dueMillis := nowMillis + int64(len(facts))
			facts = append(facts, d.requeued(RequeueReplay, dueMillis, nil))
		}
	}
	return facts, ReplayResult{
		Queued:    len(facts),
		Matched:   c.Matched,
		Truncated: c.Matched > len(c.EventIDs),
	}, nil
}

// MaxMoves is how often an event may be handed over to another endpoint.
const MaxMoves = 16

// DecideRecall decides a request to send an event again whose delivery does not exist here, or is
// forgotten: it is restored from the history, if it had ended there and the history includes all
// facts about it, which the caller knows. Then [DecideResend] decides on it, in a later turn: where
// an event continues must not depend on how far a history is, when a turn is decided again.
func DecideRecall(
	delivery Delivery, accountID string, c ResendEvent, upToDate bool,
) ([]FactBody, *Rejection) {
	if delivery.Exists() || c.Remembered == nil || c.Left().Exists() {
		return nil, nil
	}
	was := c.Remembered.Delivery
	switch {
	case was.Exists() && was.AccountID != accountID:
		return nil, nil
	case !upToDate:
		return nil, historyBehind("the history does not have yet what became of the event last")
	case !was.State.Settled():
		return nil, nil
	}
	return []FactBody{DeliveryRecalled{Delivery: was}}, nil
}

// Left returns the delivery that the event has left for another endpoint, as the history
// has it; zero if it has not, or the history does not know. It never returns, so the history
// need not be up to date.
func (c ResendEvent) Left() Delivery {
	if c.Remembered == nil || c.Remembered.Delivery.MovedTo == "" {
		return Delivery{}
	}
	return c.Remembered.Delivery
}

func historyBehind(why string) *Rejection {
	return &Rejection{Code: CodeHistoryBehind, Detail: why + "; repeat the request"}
}

// DecideResend decides a request to send one event again. A delivery that is queued, or has
// an attempt in flight, is not duplicated: no fact. Nor is one whose event was handed over:
// the caller continues at the endpoint that it names. inFlight must come from the owner of
// the attempts.
func DecideResend(
	endpoint Endpoint, delivery Delivery, accountID string, c ResendEvent,
	inFlight bool, nowMillis int64,
) ([]FactBody, *Rejection) {
	switch {
	case delivery.movedFrom(c.EndpointID) && delivery.AccountID == accountID:
		return nil, nil
	case !delivery.Exists() || delivery.AccountID != accountID || delivery.EndpointID != c.EndpointID:
		return nil, &Rejection{Code: CodeNotFound, Detail: "there is no such event"}
	case delivery.MovedTo != "":
		return nil, nil
	case delivery.State == StateCancelled, delivery.State.Pending() && endpoint.Deleted():
		return decideMove(delivery, c, inFlight)
	case endpoint.Deleted():
		return nil, &Rejection{
			Code:   CodeEndpointDeleted,
			Detail: "the endpoint that the event was sent to was deleted; the event cannot be sent again",
		}
	case delivery.State == StateQueued, inFlight:
		return nil, nil
	}
	body, rejection := c.bodyFor(delivery)
	if rejection != nil {
		return nil, rejection
	}
	return []FactBody{delivery.requeued(RequeueResend, nowMillis, body)}, nil
}

// bodyFor returns the event's body for a delivery that has settled; another has it.
func (c ResendEvent) bodyFor(d Delivery) ([]byte, *Rejection) {
	switch {
	case !d.State.Settled():
		return nil, nil
	case c.Remembered == nil || len(c.Remembered.Body) == 0:
		return nil, historyBehind("the event's body is in the history only, and was not read there")
	}
	return c.Remembered.Body, nil
}

// decideMove hands the event of a cancelled delivery over. Only this endpoint decides that,
// so an event continues at one endpoint.
func decideMove(delivery Delivery, c ResendEvent, inFlight bool) ([]FactBody, *Rejection) {
	switch {
	case delivery.EventType.TellsOfEndpoint():
		return nil, &Rejection{
			CodeDeliveryCancelled,
			"the notice was cancelled with its endpoint; it goes to no other: name another endpoint as " +
				"noticesTo, which is told from then on",
		}
	case delivery.WatchID == "":
		return nil, &Rejection{
			CodeDeliveryCancelled,
			"the test was cancelled with its endpoint; test another endpoint",
		}
	case delivery.State != StateCancelled, inFlight:
		return nil, &Rejection{
			CodeDeliveryEnding,
			"the endpoint was deleted, and the delivery is being cancelled; when the attempt that may be " +
				"under way has ended, send the event again with a new Idempotency-Key",
		}
	case c.ToEndpointID == "", delivery.wasAt(c.ToEndpointID):
		return nil, &Rejection{
			CodeNoEndpoint,
			"the delivery was cancelled with its endpoint, and the event's watch was deleted, has no " +
				"endpoint or names one that the event has left; give the watch another endpoint, then send " +
				"the event again with a new Idempotency-Key",
		}
	case delivery.Moves >= MaxMoves:
		return nil, &Rejection{
			CodeTooManyMoves,
			fmt.Sprintf("the delivery was cancelled with its endpoint, and the event went on at another "+
				"%d times, which is the most; read it in the history", MaxMoves),
		}
	}
	body, rejection := c.bodyFor(delivery)
	if rejection != nil {
		return nil, rejection
	}
	return []FactBody{DeliveryMoved{
		EventID:      delivery.EventID,
		ToEndpointID: c.ToEndpointID,
		Moves:        delivery.Moves + 1,
		Body:         body,
	}}, nil
}

// wasAt reports whether the event is or was at an endpoint. It leaves only deleted
// endpoints, so it never goes back.
func (d Delivery) wasAt(endpointID string) bool {
	return endpointID == d.EndpointID || slices.Contains(d.FormerEndpointIDs, endpointID)
}

// movedFrom reports whether the event may have been handed over by an endpoint of
// the same partition before it came here.
func (d Delivery) movedFrom(
	endpointID string,
) bool {
	return d.EndpointID != endpointID && d.Moves > 0
}

// SeenFrom returns the delivery as another endpoint knows it: an endpoint that the event
// has left knows where it went.
func (d Delivery) SeenFrom(endpointID string) Delivery {
	if !d.movedFrom(endpointID) {
		return d
	}
	return Delivery{
		EventID:         d.EventID,
		EventType:       d.EventType,
		AccountID:       d.AccountID,
		EndpointID:      endpointID,
		WatchID:         d.WatchID,
		State:           StateCancelled,
		CreatedAtMillis: d.CreatedAtMillis,
		MovedTo:         d.EndpointID,
	}
}

// HandOver returns what the next endpoint of a delivery's event gets. The body is the
// event's.
func (d Delivery) HandOver(body []byte) MatchInput {
	var sent struct{ Data struct{ Watch watchSummary } }
	_ = json.Unmarshal(body, &sent) // the body is ours
	return MatchInput{
		AccountID:     d.AccountID,
		EndpointID:    d.MovedTo,
		WatchID:       d.WatchID,
		WalletAddress: sent.Data.Watch.WalletAddress,
		Event: Event{
			ID:              d.EventID,
			Type:            d.EventType,
			CreatedAtMillis: d.CreatedAtMillis,
			Body:            body,
		},
		Moved: Moved{
			Moves:             d.Moves + 1,
			Attempts:          d.Attempts,
			Runs:              d.Run,
			FormerEndpointIDs: append(slices.Clone(d.FormerEndpointIDs), d.EndpointID),
		},
	}
}

func (d Delivery) requeued(reason RequeueReason, nowMillis int64, body []byte) DeliveryRequeued {
	return DeliveryRequeued{
		EventID:             d.EventID,
		Run:                 d.Run + 1,
		NextAttemptAtMillis: nowMillis,
		Reason:              reason,
		Body:                body,
	}
}
