package domain

// DeliveryState is where a delivery stands.
type DeliveryState string

// States of a delivery. The specification names FAILED; the others are ours.
//
//	QUEUED ──attempt fails──► WAITING ──attempt fails, the last──► FAILED
//	   └────────2xx────────► DELIVERED ◄────2xx────┘
const (
	StateQueued    DeliveryState = "QUEUED"
	StateWaiting   DeliveryState = "WAITING"
	StateDelivered DeliveryState = "DELIVERED"
	StateFailed    DeliveryState = "FAILED"
	StateCancelled DeliveryState = "CANCELLED"
)

// Pending tells whether attempts are still to be made.
func (s DeliveryState) Pending() bool { return s == StateQueued || s == StateWaiting }

// AttemptError is the code of what went wrong with an attempt (specification,
// "Delivery attempt errors"); empty when nothing did.
type AttemptError string

// Codes of attempt errors.
const (
	AttemptTimeout      AttemptError = "TIMEOUT"
	AttemptDNS          AttemptError = "DNS"
	AttemptConnRefused  AttemptError = "CONN_REFUSED"
	AttemptTLS          AttemptError = "TLS"
	AttemptRedirect     AttemptError = "REDIRECT"
	AttemptSSRFBlocked  AttemptError = "SSRF_BLOCKED"
	AttemptBodyTooLarge AttemptError = "BODY_TOO_LARGE"
)

// AttemptResult is what one attempt brought back.
type AttemptResult struct {
	SentAtMillis   int64
	DurationMillis int64
	StatusCode     int // 0: no status arrived
	Error          AttemptError
	ResponseBody   []byte // the first 1 KiB, as sent
}

// Succeeded tells whether the receiver took the event: any 2xx, answered
// completely in time. A body that was too large does not undo that.
func (r AttemptResult) Succeeded() bool {
	return r.StatusCode/100 == 2 && (r.Error == "" || r.Error == AttemptBodyTooLarge)
}

// Delivery is one event on its way to one endpoint.
type Delivery struct {
	EventID             string
	EventType           EventType
	EndpointID          string
	WatchID             string
	State               DeliveryState
	CreatedAtMillis     int64
	Attempts            int // made in all
	Run                 int // 1 is the first; a requeued delivery begins another
	RunAttempts         int // made in this run
	NextAttemptAtMillis int64
}

// Exists tells whether the delivery was created.
func (d Delivery) Exists() bool { return d.EventID != "" }

// DecideMatch answers a match that reached the endpoint. The first match of an
// event wins; any other says nothing new (G2). A match for an endpoint that does
// not exist is recorded all the same, and cancelled.
func DecideMatch(endpoint Endpoint, delivery Delivery, m MatchInput) []FactBody {
	if delivery.Exists() {
		return nil
	}
	facts := []FactBody{DeliveryCreated(m)}
	if !endpoint.Exists() {
		facts = append(facts, DeliveryCancelled{EventID: m.Event.ID})
	}
	return facts
}

// MatchInput is a match as it reaches the endpoint's aggregate.
type MatchInput struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Event         Event
}

// DecideAttempt answers the result of attempt number attemptNumber. A result
// for any other attempt than the next one was counted before, or belongs to a
// delivery that was settled meanwhile.
func DecideAttempt(delivery Delivery, attemptNumber int, r AttemptResult, schedule Schedule, nowMillis int64) []FactBody {
	if !delivery.State.Pending() || attemptNumber != delivery.Attempts+1 {
		return nil
	}
	made := AttemptMade{
		EventID: delivery.EventID, EventType: delivery.EventType,
		Number: attemptNumber, Run: delivery.Run, Result: r, State: StateDelivered,
	}
	if !r.Succeeded() {
		made.State = StateFailed
		if wait, again := schedule.WaitMillis(delivery.EventID, delivery.RunAttempts+1, attemptNumber); again {
			made.State, made.NextAttemptAtMillis = StateWaiting, nowMillis+wait
		}
	}
	return []FactBody{made}
}

// EvolveDelivery folds one fact into the state of the delivery it speaks of.
func EvolveDelivery(state Delivery, f Fact) Delivery {
	switch body := f.Body.(type) {
	case DeliveryCreated:
		state = Delivery{
			EventID: body.Event.ID, EventType: body.Event.Type, EndpointID: body.EndpointID, WatchID: body.WatchID,
			State: StateQueued, CreatedAtMillis: f.AtMillis, Run: 1, NextAttemptAtMillis: f.AtMillis,
		}
	case AttemptMade:
		state.Attempts, state.Run = body.Number, body.Run
		state.RunAttempts++
		state.State, state.NextAttemptAtMillis = body.State, body.NextAttemptAtMillis
	case DeliveryCancelled:
		state.State, state.NextAttemptAtMillis = StateCancelled, 0
	}
	return state
}

// Attempt is one attempt that is to be made: the request, but for its timestamp
// and signature, which belong to the moment of sending.
type Attempt struct {
	EventID    string
	EndpointID string
	Number     int
	URL        string
	Secrets    []string // newest first
	Body       []byte
}
