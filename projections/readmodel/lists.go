package readmodel

import "github.com/lumenhook/lumenhook/domain"

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
