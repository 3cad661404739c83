package readmodel

import (
	"github.com/lumenhook/lumenhook/domain"
)

// Event is an event with its current delivery. It does not say whether the delivery is held,
// because that depends on the state of its endpoint at the time of reading.
type Event struct {
	ID                  string
	EndpointID          string // its current endpoint
	CreatedAtMillis     int64
	Sequence            uint64 // number among that endpoint's deliveries; 0: no number
	Body                []byte // the envelope, byte for byte as receivers get it
	State               domain.DeliveryState
	NextAttemptAtMillis int64 // 0: no attempt is planned
	AttemptsMade        int   // over all runs

	// Only in lists: from the last attempt at the current endpoint.
	LastStatusCode int // 0: no status arrived
	LastError      domain.AttemptError

	// Not in lists.
	Attempts []Attempt // of all its deliveries, oldest first
	Behind   bool      // the history is being refilled: this may be an earlier state
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	EndpointID string
	Number     int // counts over all runs; 1 is the first
	Run        int
	Result     domain.AttemptResult
	Entry      domain.LogEntry // without its hashes; its number is 0 if it is in no log
}

// Recalled is an event with the deliveries that the engine may have forgotten.
type Recalled struct {
	Event
	// Deliveries to its endpoints, oldest first, without the fields that the body contains. Empty
	// while the history lacks one of those before the current one.
	Deliveries []domain.Delivery
	// AsOf returns the journal offset up to which the history was read, in the partition of an
	// endpoint.
	AsOf func(endpointID string) int64
}

// NumberedPage holds events of an endpoint after a number.
type NumberedPage struct {
	Events  []NumberedEvent // in the order of their numbers
	Missing []Numbers       // before and between them: of events that are no longer stored
	// AsOf is the position up to which the history was read, at least, in the endpoint's partition.
	// Once it has more, there may be another event.
	AsOf int64
}

// NumberedEvent is an event as its endpoint gets it.
type NumberedEvent struct {
	ID              string
	Sequence        uint64
	CreatedAtMillis int64
	Body            []byte // the envelope, byte for byte as receivers get it
}

// Numbers are the numbers from one to another, both included.
type Numbers struct{ From, To uint64 }

// EndpointFilter selects endpoints. AccountID must be set; an empty Status does not filter.
type EndpointFilter struct {
	AccountID string
	Status    domain.EndpointStatus
}

// WatchFilter selects watches. AccountID must be set; empty fields do not filter.
type WatchFilter struct {
	AccountID     string
	EndpointID    string
	WalletAddress string
}

// EventFilter selects events. AccountID must be set; empty fields do not filter.
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
	Memo          string // as events show it
	Asset         domain.Asset
	MinStroops    *int64 // maximum payment
	MaxStroops    *int64 // paid at most
	SinceMillis   int64  // created at or after
	UntilMillis   int64  // created before; 0: no end
	NoTests       bool   // without events of the type test.ping
}

// ChooseMax is the largest number of events that one call selects to act on.
const ChooseMax = 10_000

// Position is a position in a list: the last object that was returned.
type Position struct {
	CreatedAtMillis int64
	ID              string
}
