package domain

import "slices"

// DeliveryState is the state of a delivery.
type DeliveryState string

// States of a delivery. Only FAILED is part of the specification.
//
//	QUEUED ──attempt fails──► WAITING ──attempt fails, the last──► FAILED
//	   └────────2xx────────► DELIVERED ◄────2xx────┘
//
// A replay requeues FAILED deliveries. A resend requeues deliveries in every state except
// CANCELLED. Deleting an endpoint cancels its QUEUED and WAITING deliveries, and disabling it
// cancels an unsent test.ping. CANCELLED is final, but the event may be handed over once to another
// endpoint, where it has a delivery of its own.
//
// A DELIVERED or CANCELLED delivery has settled. Its body is no longer stored, and the delivery is
// forgotten once enough others have settled after it. If its event is resent, it is recalled from
// the history.
const (
	StateQueued    DeliveryState = "QUEUED"
	StateWaiting   DeliveryState = "WAITING"
	StateDelivered DeliveryState = "DELIVERED"
	StateFailed    DeliveryState = "FAILED"
	StateCancelled DeliveryState = "CANCELLED"
)

// transitions lists where facts may lead (docs/state-machines.md), from "" for a new delivery.
var transitions = map[DeliveryState]map[string][]DeliveryState{
	"": {
		"DeliveryCreated":  {StateQueued},
		"DeliveryRecalled": {StateDelivered, StateCancelled},
	},
	StateQueued: {
		"AttemptMade":       {StateWaiting, StateDelivered, StateFailed, StateCancelled},
		"DeliveryCancelled": {StateCancelled},
	},
	StateWaiting: {
		"AttemptMade":       {StateWaiting, StateDelivered, StateFailed, StateCancelled},
		"DeliveryRequeued":  {StateQueued},
		"DeliveryCancelled": {StateCancelled},
	},
	StateDelivered: {
		"DeliveryRecalled": {StateDelivered},
		"DeliveryRequeued": {StateQueued},
	},
	StateFailed: {"DeliveryRequeued": {StateQueued}},
	StateCancelled: {
		"AttemptMade":      {StateCancelled},
		"DeliveryRecalled": {StateCancelled},
		"DeliveryMoved":    {StateCancelled},
	},
}

// Allows reports whether a fact may move a delivery from this state to another. Decisions respect
// it; the fold accepts every fact, because a fact has already happened.
func (s DeliveryState) Allows(body FactBody, to DeliveryState) bool {
	return slices.Contains(transitions[s][body.FactType()], to)
}

// Pending reports whether there will be more attempts.
func (s DeliveryState) Pending() bool { return s == StateQueued || s == StateWaiting }

// Settled reports whether only a resend can requeue the delivery.
func (s DeliveryState) Settled() bool { return s == StateDelivered || s == StateCancelled }

// Delivery is the delivery of one event to one endpoint.
type Delivery struct {
	EventID    string
	EventType  EventType
	AccountID  string
	EndpointID string
	// The endpoint's epoch at the last fact, or when the delivery reached the head of its line. If the
	// endpoint's epoch differs, the delivery is due immediately.
	EndpointEpoch       uint32
	WatchID             string // empty for a test.ping
	Version             uint64 // version of the last fact
	State               DeliveryState
	CreatedAtMillis     int64 // the event's creation time (createdAt)
	Attempts            int   // in total
	Run                 int   // number of the run; requeueing starts the next one
	RunAttempts         int   // in this run
	NextAttemptAtMillis int64
	Sequence            uint64   // see [DeliveryCreated.Sequence]
	Moves               int      // earlier handovers of the event
	FormerEndpointIDs   []string // the event's earlier endpoints, oldest first
	MovedTo             string   // endpoint that received the event in a handover, or empty
	MovedBy             string   // ID of the command that requested the handover
	TestCommandID       string   // ID of the command that requested a test.ping, or empty
	TestBodyHash        []byte   // body hash of that command
	// Line is the wallet in whose line at the endpoint the delivery waits ([OrderingWallet]), until it
	// has ended. It is empty if there is none.
	Line string
	// Behind means that another delivery in the line comes first. It is set without a fact.
	Behind bool
}

// Exists reports whether the delivery was created.
func (d Delivery) Exists() bool { return d.EventID != "" }

// MatchInput is a match, as passed to the endpoint's aggregate.
type MatchInput struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Event         Event
	Moved         Moved
}

// Moved is the history of an event that was handed over. It is zero for other events.
type Moved struct {
	Moves             int
	Attempts          int // total
	Runs              int
	FormerEndpointIDs []string // earlier endpoints, oldest first
	// FromPartition is the partition of the previous endpoint. Number is the number of the handover,
	// which increases in that partition. It is 0 if the handover was copied to other topics.
	FromPartition int32
	Number        uint64
}

// DecideMatch decides a match for an endpoint. Only the first match of an event counts (G2). If the
// endpoint doesn't exist for the account, the delivery is recorded and cancelled.
func DecideMatch(endpoint Endpoint, delivery Delivery, m MatchInput) []FactBody {
	if delivery.Exists() && !delivery.precedes(m) {
		return nil
	}
	facts := []FactBody{DeliveryCreated{
		AccountID:     m.AccountID,
		EndpointID:    m.EndpointID,
		WatchID:       m.WatchID,
		WalletAddress: m.WalletAddress,
		Event:         m.Event,
		Moved:         m.Moved,
		Sequence:      endpoint.Sequence + 1,
		Ordered:       endpoint.orders(m),
	}}
	if !endpoint.visibleTo(m.AccountID) {
		facts = append(facts,
			DeliveryCancelled{EventID: m.Event.ID, Reason: endpoint.cancels(m.AccountID)})
	}
	return facts
}

func (e Endpoint) cancels(accountID string) CancelReason {
	switch {
	case !e.Exists() || e.AccountID != accountID:
		return CancelMissing
	case e.Deleted():
		return CancelDeleted
	}
	return CancelDisabled
}

func (e Endpoint) orders(m MatchInput) bool {
	return e.Ordering == OrderingWallet && m.WalletAddress != "" && e.visibleTo(m.AccountID)
}

// precedes reports whether the match hands the delivery's event over to another endpoint in the
// same partition, where only the latest delivery of an event is stored.
func (d Delivery) precedes(m MatchInput) bool {
	return d.EndpointID != m.EndpointID && d.Moves < m.Moved.Moves
}

// DecideCancel cancels a pending delivery whose endpoint was deleted, and an unsent test.ping whose
// endpoint was disabled. All other deliveries wait until the endpoint is enabled (G3). It also
// answers the command of a test.ping that was never sent.
func DecideCancel(endpoint Endpoint, delivery Delivery) []FactBody {
	unsent := delivery.awaitsTest()
	cancels := endpoint.Deleted() || !endpoint.Sends() && unsent
	if !delivery.State.Pending() || !cancels {
		return nil
	}
	facts := []FactBody{DeliveryCancelled{
		EventID: delivery.EventID,
		Reason:  endpoint.cancels(delivery.AccountID),
	}}
	if !unsent {
		return facts
	}
	rejection := Rejection{
		Code:   CodeNotFound,
		Detail: "the endpoint was deleted before the test was sent",
	}
	if !endpoint.Deleted() {
		rejection = Rejection{
			Code:   CodeEndpointDisabled,
			Detail: "the endpoint was disabled before the test was sent; enable it and test again",
		}
	}
	return append(facts, CommandHandled{
		CommandID: delivery.TestCommandID,
		BodyHash:  delivery.TestBodyHash,
		Answer:    Answer{Rejection: &rejection},
	})
}

// evolveDelivery applies a fact of the delivery. It ignores all other facts.
func evolveDelivery(state Delivery, endpointEpoch uint32, f Fact) Delivery {
	changed, ok := f.Body.(DeliveryFact)
	if !ok {
		return state
	}
	switch body := changed.(type) {
	case DeliveryCreated:
		state = Delivery{
			EventID:             body.Event.ID,
			EventType:           body.Event.Type,
			AccountID:           body.AccountID,
			EndpointID:          body.EndpointID,
			WatchID:             body.WatchID,
			State:               StateQueued,
			CreatedAtMillis:     body.Event.CreatedAtMillis,
			NextAttemptAtMillis: f.AtMillis,
			Sequence:            body.Sequence,
			Moves:               body.Moved.Moves,
			FormerEndpointIDs:   body.Moved.FormerEndpointIDs,
			Attempts:            body.Moved.Attempts,
			Run:                 body.Moved.Runs + 1,
		}
		if body.Event.Type == TestPing {
			state.TestCommandID, state.TestBodyHash = f.Cause, body.TestBodyHash
		}
		if body.Ordered {
			state.Line = body.WalletAddress
		}
	case AttemptMade:
		state.Attempts, state.Run = body.Number, body.Run
		state.RunAttempts++
		state.State, state.NextAttemptAtMillis = body.State, body.NextAttemptAtMillis
	case DeliveryRecalled:
		state = body.Delivery
	case DeliveryRequeued:
		state.State, state.NextAttemptAtMillis = StateQueued, body.NextAttemptAtMillis
		state.Run, state.RunAttempts = body.Run, 0
	case DeliveryCancelled:
		state.State, state.NextAttemptAtMillis = StateCancelled, 0
	case DeliveryMoved:
		state.MovedTo, state.MovedBy = body.ToEndpointID, f.Cause
	}
	if !state.State.Pending() { // whatever is resent does not wait in line again
		state.Line, state.Behind = "", false
	}
	state.Version, state.EndpointEpoch = f.Version, endpointEpoch
	return state
}
