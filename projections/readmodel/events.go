package readmodel

import (
	"github.com/lumenhook/lumenhook/domain"
)

// Event is an event with its present delivery. Whether the delivery is held is not part of it:
// that depends on the state of its endpoint at the time of reading.
type Event struct {
	ID                  string
	EndpointID          string // its present endpoint
	CreatedAtMillis     int64
	Sequence            uint64 // number among that endpoint's deliveries; 0: none
	Body                []byte // the envelope, byte for byte as receivers get it
	State               domain.DeliveryState
	NextAttemptAtMillis int64 // 0: none
	AttemptsMade        int   // over all runs

	// Only lists have these, of the last attempt at the present endpoint.
	LastStatusCode int // 0: no status arrived
	LastError      domain.AttemptError

	// Lists leave these out.
	Attempts []Attempt // of all its deliveries, oldest first
	Behind   bool      // the history is being refilled: this may be an earlier state
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	EndpointID string
	Number     int // counts over all runs; 1 is the first
	Run        int
	Result     domain.AttemptResult
	Entry      domain.LogEntry // without its hashes; its number is 0 for one that is in no log
}

// Recalled is an event with the deliveries that the engine may have forgotten.
type Recalled struct {
	Event
	// Deliveries to its endpoints, oldest first, without what the body says. Empty while the
	// history lacks one of those before the present one.
	Deliveries []domain.Delivery
	// AsOf returns the offset of the journal up to which the history was read, in the
	// partition of an endpoint.
	AsOf func(endpointID string) int64
}

// NumberedPage are events of an endpoint that follow a number.
type NumberedPage struct {
	Events  []NumberedEvent // in the order of their numbers
	Missing []Numbers       // before and between them: of events that are no longer kept
	// AsOf is how far the history was read at least, in the endpoint's partition: once it has
	// more, there may be another event.
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
	MinStroops    *int64 // paid at least
	MaxStroops    *int64 // paid at most
	SinceMillis   int64  // created at or after
	UntilMillis   int64  // created before; 0: no end
	NoTests       bool   // without events of the type test.ping
}

// ChooseMax is the largest number of events that one call selects to act on.
const ChooseMax = 10_000

// Position is a position in a list: the object that was returned last.
type Position struct {
	CreatedAtMillis int64
	ID              string
}
