package domain

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MaxReplay is the maximum number of deliveries that a replay queues (specification, "Limits").
const MaxReplay = 1000

// RequeueReason is the reason why a delivery was requeued.
type RequeueReason string

// Reasons for requeueing a delivery.
const (
	RequeueReplay RequeueReason = "replay"
	RequeueResend RequeueReason = "resend"
)

// Replayable reports whether a replay can queue the delivery: it has FAILED and is not a test.ping.
func (d Delivery) Replayable() bool { return d.State == StateFailed && d.EventType != TestPing }

// includes reports whether the replay includes the delivery. The time range applies to createdAt.
func (c ReplayEndpoint) includes(d Delivery) bool {
	ended := c.UntilMillis != 0 && d.CreatedAtMillis >= c.UntilMillis
	return d.Replayable() && d.CreatedAtMillis >= c.SinceMillis && !ended
}

// DecideReplay decides a request to requeue failed deliveries. candidates are the endpoint's
// [Delivery.Replayable] deliveries in the time range, oldest first: at least the first [MaxReplay]
// of them. matched is their total number. The first attempts are made in the same order. If the
// endpoint is disabled, the deliveries wait until it is enabled.
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
		if c.includes(d) {
			// One millisecond apart, because attempts are made in order of due time.
			facts = append(facts, d.requeued(RequeueReplay, nowMillis+int64(len(facts)), nil))
		}
	}
	result := ReplayResult{Queued: len(facts), Matched: max(matched, len(facts))}
	result.Truncated = result.Matched > result.Queued
	return facts, result, nil
}

// DecideReplayEvents decides a request to requeue chosen deliveries. candidates are in the chosen
// order. It skips deliveries that are no longer FAILED or belong to another endpoint.
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

// MaxMoves is the maximum number of times that an event can be handed over to another endpoint.
const MaxMoves = 16

// DecideRestoreDelivery decides a request to resend an event whose delivery is not in the state. It
// restores the delivery from the history if the delivery had settled. upToDate reports whether the
// history includes all facts about it. [DecideResend] then decides the request in a later turn. If
// a turn is decided again, the result must not depend on how up to date the history is.
func DecideRestoreDelivery(
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
		return nil, historyBehind("the history doesn't have the event's latest state yet")
	case !was.State.Settled():
		return nil, nil
	}
	return []FactBody{DeliveryRecalled{Delivery: was}}, nil
}

// Left returns the delivery that the event has left for another endpoint according to the history,
// or the zero value. An event never comes back, so the history need not be up to date.
func (c ResendEvent) Left() Delivery {
	if c.Remembered == nil || c.Remembered.Delivery.MovedTo == "" {
		return Delivery{}
	}
	return c.Remembered.Delivery
}

func historyBehind(why string) *Rejection {
	return &Rejection{Code: CodeHistoryBehind, Detail: why + "; repeat the request"}
}

// DecideResend decides a request to resend an event. It returns no facts if the delivery is queued
// or has an attempt in flight, or if the event was handed over: then the caller sends the request
// to that endpoint. inFlight must come from the owner of the attempts.
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

// bodyFor returns the event's body for a settled delivery. Other deliveries still have theirs.
func (c ResendEvent) bodyFor(d Delivery) ([]byte, *Rejection) {
	switch {
	case !d.State.Settled():
		return nil, nil
	case c.Remembered == nil || len(c.Remembered.Body) == 0:
		return nil, historyBehind("the event's body is only stored in the history, and could not be read")
	}
	return c.Remembered.Body, nil
}

// decideMove hands over the event of a cancelled delivery. Only the event's latest endpoint decides
// this, so an event never continues at two endpoints.
func decideMove(delivery Delivery, c ResendEvent, inFlight bool) ([]FactBody, *Rejection) {
	switch {
	case delivery.EventType.TellsOfEndpoint():
		return nil, &Rejection{
			CodeDeliveryCancelled,
			"the notice was cancelled with its endpoint and can't be sent to another one; to receive " +
				"future notices, set noticesTo to another endpoint",
		}
	case delivery.WatchID == "":
		return nil, &Rejection{
			CodeDeliveryCancelled,
			"the test was cancelled with its endpoint; test another endpoint",
		}
	case delivery.State != StateCancelled, inFlight:
		return nil, &Rejection{
			CodeDeliveryEnding,
			"the endpoint was deleted, and the delivery is being cancelled; once the attempt that may be " +
				"in flight has ended, send the event again with a new Idempotency-Key",
		}
	case c.ToEndpointID == "", delivery.wasAt(c.ToEndpointID):
		return nil, &Rejection{
			CodeNoEndpoint,
			"the delivery was cancelled with its endpoint, and the event's watch was deleted, has no " +
				"endpoint, or has one that the event was sent to before; give the watch another endpoint, " +
				"then send the event again with a new Idempotency-Key",
		}
	case delivery.Moves >= MaxMoves:
		return nil, &Rejection{
			CodeTooManyMoves,
			fmt.Sprintf("the delivery was cancelled with its endpoint, and the event has moved to another "+
				"endpoint %d times, which is the maximum; read it in the history", MaxMoves),
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

// wasAt reports whether the event is or was at an endpoint. It never returns to a former one.
func (d Delivery) wasAt(endpointID string) bool {
	return endpointID == d.EndpointID || slices.Contains(d.FormerEndpointIDs, endpointID)
}

// movedFrom reports whether an endpoint of the same partition may have handed over the event.
func (d Delivery) movedFrom(
	endpointID string,
) bool {
	return d.EndpointID != endpointID && d.Moves > 0
}

// SeenFrom returns the delivery as the endpoint sees it, which may be one that the event has left.
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

// HandOver returns the match for the event's next endpoint. body is the event's body.
func (d Delivery) HandOver(body []byte) MatchInput {
	var sent struct{ Data struct{ Watch watchSummary } }
	_ = json.Unmarshal(body, &sent) // we encoded the body
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
