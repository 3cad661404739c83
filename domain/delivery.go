package domain

import "slices"

// DeliveryState is the state of a delivery.
type DeliveryState string

// States of a delivery. The specification names FAILED; the others are ours.
//
//	QUEUED ──attempt fails──► WAITING ──attempt fails, the last──► FAILED
//	   └────────2xx────────► DELIVERED ◄────2xx────┘
//
// Replay leads from FAILED back to QUEUED, a resend from every state but
// CANCELLED; deleting the endpoint leads from QUEUED and WAITING to CANCELLED,
// which is final, and so does disabling it for a test.ping that was not sent. The
// event of a cancelled delivery may be handed over to another endpoint, once, and
// has a delivery of its own there.
//
// A DELIVERED or CANCELLED delivery has settled: its body is not stored, and it is forgotten when
// enough others have settled after it. It is recalled if its event is to be sent again.
const (
	StateQueued    DeliveryState = "QUEUED"
	StateWaiting   DeliveryState = "WAITING"
	StateDelivered DeliveryState = "DELIVERED"
	StateFailed    DeliveryState = "FAILED"
	StateCancelled DeliveryState = "CANCELLED"
)

// transitions lists the states that each fact may lead to from each state, as
// docs/state-machines.md does. A delivery that was not created has the state "".
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

// Allows reports whether a fact may lead a delivery from this state to another. Decisions
// respect it; the fold accepts whatever has happened.
func (s DeliveryState) Allows(body FactBody, to DeliveryState) bool {
	return slices.Contains(transitions[s][body.FactType()], to)
}

// Pending reports whether attempts will follow.
func (s DeliveryState) Pending() bool { return s == StateQueued || s == StateWaiting }

// Settled reports whether only a resend can continue the delivery.
func (s DeliveryState) Settled() bool { return s == StateDelivered || s == StateCancelled }

// Delivery is the delivery of one event to one endpoint.
type Delivery struct {
	EventID    string
	EventType  EventType
	AccountID  string
	EndpointID string
	// of the endpoint at the last fact, or when its turn came in its line: if it differs from
	// the endpoint's, the delivery is due at once
	EndpointEpoch       uint32
	WatchID             string // empty for a test.ping
	Version             uint64 // of the last fact
	State               DeliveryState
	CreatedAtMillis     int64 // of the event: createdAt of its envelope
	Attempts            int   // in total
	Run                 int   // 1 is the first; a requeued delivery starts another
	RunAttempts         int   // in this run
	NextAttemptAtMillis int64
	Sequence            uint64   // [DeliveryCreated.Sequence]
	Moves               int      // hand-overs of the event before this delivery
	FormerEndpointIDs   []string // earlier endpoints of the event, oldest first
	MovedTo             string   // endpoint that the event was handed over to; empty: none
	MovedBy             string   // command that requested it
	TestCommandID       string   // command that requested a test.ping; empty otherwise
	TestBodyHash        []byte   // its body hash
	// Line is the wallet in whose line at the endpoint it stands until it has ended
	// ([OrderingWallet]); empty: in none.
	Line string
	// Behind means that it waits for another in its line. The owner of the lines sets and clears
	// it, without a fact.
	Behind bool
}

// Exists reports whether the delivery was created.
func (d Delivery) Exists() bool { return d.EventID != "" }

// MatchInput is a match as the endpoint's aggregate gets it.
type MatchInput struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Event         Event
	Moved         Moved
}

// Moved is an event's history when it is handed over to an endpoint: all zero for an event
// that was not handed over.
type Moved struct {
	Moves             int
	Attempts          int // in total
	Runs              int
	FormerEndpointIDs []string // its earlier endpoints, oldest first
	// FromPartition is the partition of the endpoint that it has left, and Number that of the
	// hand-over: later ones from the partition have higher ones. 0 if the hand-over was copied into
	// other topics.
	FromPartition int32
	Number        uint64
}

// DecideMatch decides a match for an endpoint. The first match of an event counts; any
// other has no effect (G2). A match for an endpoint that does not exist, or no longer does,
// is recorded nevertheless, and cancelled; so is one for an endpoint of another account.
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

// cancels returns why the endpoint cancels a delivery of an account.
func (e Endpoint) cancels(accountID string) CancelReason {
	switch {
	case !e.Exists() || e.AccountID != accountID:
		return CancelMissing
	case e.Deleted():
		return CancelDeleted
	}
	return CancelDisabled
}

// orders reports whether a match joins a line at the endpoint.
func (e Endpoint) orders(m MatchInput) bool {
	return e.Ordering == OrderingWallet && m.WalletAddress != "" && e.visibleTo(m.AccountID)
}

// precedes reports whether a match hands the delivery's event over to another endpoint of
// the same partition, which stores one delivery of an event: the latest.
func (d Delivery) precedes(m MatchInput) bool {
	return d.EndpointID != m.EndpointID && d.Moves < m.Moved.Moves
}

// DecideCancel cancels a delivery whose endpoint was deleted, and a test.ping whose
// endpoint was disabled before the first attempt: any other delivery waits until the
// endpoint is enabled (G3). A settled one is left unchanged. The command of a test.ping
// that was never attempted is answered here.
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

// evolveDelivery applies one fact of the delivery; any other fact changes nothing.
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
	if !state.State.Pending() { // what is sent again after its end goes out of turn
		state.Line, state.Behind = "", false
	}
	state.Version, state.EndpointEpoch = f.Version, endpointEpoch
	return state
}
