package readmodel

import (
	"github.com/lumenhook/lumenhook/domain"
)

// Event is an event with its current delivery. It doesn't contain whether the delivery is held,
// because that depends on the endpoint's state at the time of reading.
type Event struct {
	ID                  string
	EndpointID          string // the current endpoint
	CreatedAtMillis     int64
	Sequence            uint64 // number among the endpoint's deliveries; 0: no number
	Body                []byte // the envelope, byte for byte as receivers get it
	State               domain.DeliveryState
	NextAttemptAtMillis int64 // 0 if no attempt is planned
	AttemptsMade        int   // across all runs

	// Lists only: the last attempt at the current endpoint.
	LastStatusCode int // 0 if there was no response
	LastError      domain.AttemptError

	// Not in lists.
	Attempts []Attempt // at all endpoints, oldest first
	Behind   bool      // the history is being rebuilt, so this may be an earlier state
}

// Attempt is an attempt of a delivery.
type Attempt struct {
	EndpointID string
	Number     int // counts from 1, across all runs
	Run        int
	Result     domain.AttemptResult
	Entry      domain.LogEntry // without hashes; Number is 0 if the attempt is in no log
}

// Recalled is an event with deliveries that the engine may have forgotten.
type Recalled struct {
	Event
	// Deliveries are the deliveries to the event's endpoints, oldest first, without the fields that
	// the body contains. It is empty while the history lacks an earlier delivery than the current one.
	Deliveries []domain.Delivery
	// AsOf returns the journal offset up to which the history of an endpoint's partition was read.
	AsOf func(endpointID string) int64
}

// NumberedPage holds an endpoint's events after a number.
type NumberedPage struct {
	Events  []NumberedEvent // in number order
	Missing []Numbers       // before and between Events: numbers of events that are no longer stored
	// AsOf is the offset up to which the history of the endpoint's partition was read, at least. There
	// can only be a new event once the history has read further.
	AsOf int64
}

// NumberedEvent is an event as its endpoint receives it.
type NumberedEvent struct {
	ID              string
	Sequence        uint64
	CreatedAtMillis int64
	Body            []byte // the envelope, byte for byte as receivers get it
}

// Numbers is an inclusive range of numbers.
type Numbers struct{ From, To uint64 }

// EndpointFilter selects endpoints. AccountID is required; an empty Status doesn't filter.
type EndpointFilter struct {
	AccountID string
	Status    domain.EndpointStatus
}

// WatchFilter selects watches. AccountID is required; empty fields don't filter.
type WatchFilter struct {
	AccountID     string
	EndpointID    string
	WalletAddress string
}

// EventFilter selects events. AccountID is required; empty fields don't filter.
type EventFilter struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Type          domain.EventType
	State         domain.DeliveryState
	PaymentID     string
	TxHash        string
	Sender        string
	Memo          string // as in events
	Asset         domain.Asset
	MinStroops    *int64 // minimum payment
	MaxStroops    *int64 // maximum payment
	SinceMillis   int64  // created at or after
	UntilMillis   int64  // created before; 0 means no limit
	NoTests       bool   // without test.ping events
}

// ChooseMax is the maximum number of events that one call selects to act on.
const ChooseMax = 10_000

// Position is a position in a list: the last object that was returned.
type Position struct {
	CreatedAtMillis int64
	ID              string
}
