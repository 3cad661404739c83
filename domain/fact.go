package domain

// Fact is something that has happened to an aggregate. Versions of one
// aggregate count up by one.
type Fact struct {
	Aggregate string // account, endpoint or watch identifier
	Version   uint64
	AtMillis  int64
	Cause     string // identifier of the command that caused it; empty for payments and attempts
	Body      FactBody
}

// FactBody is one kind of fact.
type FactBody interface {
	// FactType is the name under which the fact is kept in the journal.
	FactType() string
}

// AccountCreated opens an account.
type AccountCreated struct {
	AccountID string
	Email     string
}

// KeyCreated adds an API key to an account.
type KeyCreated struct {
	Key Key
}

// EndpointCreated registers an endpoint.
type EndpointCreated struct {
	EndpointID  string
	AccountID   string
	URL         string
	Description string
	Secret      SealedSecret
}

// WatchCreated registers a watch. The watch's version is the fact's.
type WatchCreated struct {
	Watch Watch
}

// DeliveryCreated queues an event for its endpoint.
type DeliveryCreated struct {
	AccountID     string
	EndpointID    string
	WatchID       string
	WalletAddress string
	Event         Event
}

// AttemptMade records one attempt and what it made of the delivery. The next
// state and time are part of the fact, so that a fold needs no schedule.
type AttemptMade struct {
	EventID             string
	EventType           EventType
	Number              int // counts over all runs; 1 is the first
	Run                 int
	Result              AttemptResult
	State               DeliveryState
	NextAttemptAtMillis int64 // 0 unless the state is WAITING
}

// DeliveryCancelled ends a delivery without another attempt.
type DeliveryCancelled struct {
	EventID string
}

// CommandHandled records the answer to a command, so that a repeat of it is
// answered alike.
type CommandHandled struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
}

func (AccountCreated) FactType() string    { return "AccountCreated" }
func (KeyCreated) FactType() string        { return "KeyCreated" }
func (EndpointCreated) FactType() string   { return "EndpointCreated" }
func (WatchCreated) FactType() string      { return "WatchCreated" }
func (DeliveryCreated) FactType() string   { return "DeliveryCreated" }
func (AttemptMade) FactType() string       { return "AttemptMade" }
func (DeliveryCancelled) FactType() string { return "DeliveryCancelled" }
func (CommandHandled) FactType() string    { return "CommandHandled" }
