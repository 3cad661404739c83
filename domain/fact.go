package domain

// Fact is something that has happened to an aggregate. Versions of one aggregate count up by one.
type Fact struct {
	Aggregate string // account, endpoint or watch identifier
	Version   uint64
	AtMillis  int64
	Cause     string // identifier of the command that caused it; empty for payments and attempts
	Body      FactBody
}

// EventID returns the event whose delivery the fact is about, or "".
func (f Fact) EventID() string { return f.Body.eventID() }

// FactBody is one kind of fact.
//
//sumtype:decl
type FactBody interface {
	// FactType is the name of the fact in the journal.
	FactType() string
	eventID() string
}

// AccountFact is a fact that changes an account.
//
//sumtype:decl
type AccountFact interface {
	FactBody
	ofAccount()
}

// EndpointFact is a fact that changes what an endpoint is.
//
//sumtype:decl
type EndpointFact interface {
	FactBody
	ofEndpoint()
}

// DeliveryFact is a fact about one delivery, in the aggregate of its endpoint.
//
//sumtype:decl
type DeliveryFact interface {
	FactBody
	ofDelivery()
}

// NoticeFact is a fact about one notice, in the aggregate of its endpoint. The first fact of a
// notice is the [EndpointDisabled] itself.
//
//sumtype:decl
type NoticeFact interface {
	FactBody
	ofNotice()
}

// WatchFact is a fact that changes a watch.
//
//sumtype:decl
type WatchFact interface {
	FactBody
	ofWatch()
}

// AccountCreated creates an account, or changes its emails and quotas.
type AccountCreated struct {
	AccountID  string
	Email      string
	MoreEmails []string // [Account.MoreEmails]
	Updated    bool     // the account existed
	Quotas     Counts   // [Account.Quotas]
}

// KeyCreated adds an API key to an account.
type KeyCreated struct {
	Key Key
}

// KeyRolled replaces a key by another. The earlier key expires later.
type KeyRolled struct {
	KeyID           string // the earlier key
	ExpiresAtMillis int64  // of the earlier key
	Key             Key    // the new key
}

// KeyRevoked ends an API key at once.
type KeyRevoked struct {
	KeyID string
}

// EndpointCreated registers an endpoint.
type EndpointCreated struct {
	EndpointSettings
	EndpointID string
	AccountID  string
	Secret     SealedSecret
}

// EndpointUpdated changes settings of an endpoint. Pending deliveries use the new ones.
type EndpointUpdated struct {
	Change EndpointChange
}

// SecretRotated gives an endpoint a new current secret. The former one also signs for 24 hours.
type SecretRotated struct {
	Secret SealedSecret
}

// SecretsResealed stores the same secrets and header values under another seal. It holds all of
// them.
type SecretsResealed struct {
	Secrets []SealedSecret
	Headers []Header
}

// EndpointDisabled stops the sending. The mail to the account holder reports the last attempt,
// which is empty if a user disabled the endpoint.
type EndpointDisabled struct {
	Reason         DisabledReason
	EventID        string
	LastStatusCode int // 0: no status arrived
	LastError      AttemptError
	Telling        Telling // other endpoints to notify
	// FailingSinceMillis is [Trouble.SinceMillis] of the streak of failures; 0: unknown.
	FailingSinceMillis int64
}

// MailOrdered orders the mail of a notice. The same transaction writes the order to the topic
// "mails".
type MailOrdered struct {
	Notice       uint64 // version of the EndpointDisabled
	Number       int    // of the order; 1 is the notice's first
	NextAtMillis int64  // of the next order, if no answer arrives
}

// MailAttempted records the outcome of an order, or that there will be no order.
type MailAttempted struct {
	Notice       uint64
	Number       int // of the order
	Outcome      MailOutcome
	NextAtMillis int64    // of the next order; 0 unless the outcome is MailRetried
	Done         MailDone // the addresses that the next order skips
}

// EndpointEnabled resumes sending: pending deliveries are due at once.
type EndpointEnabled struct{}

// EndpointDeleted deletes an endpoint. Separate facts cancel its pending deliveries.
type EndpointDeleted struct{}

// WatchCreated registers a watch. The watch's version is the fact's.
type WatchCreated struct {
	Watch Watch
}

// WatchUpdated changes settings of a watch.
type WatchUpdated struct {
	Change WatchChange
}

// WatchDeleted ends a watch.
type WatchDeleted struct{}

// BackfillRequested begins a backfill of a watch. The fact's version identifies the request.
type BackfillRequested struct {
	From uint32
	To   uint32 // 0: to where the live ledger is followed
}

// RangeCovered records that the payments of a range of ledgers were matched against a watch and
// that all matches are in the log; or that a watch for one payment has its payment.
type RangeCovered struct {
	Request   uint64
	From, To  uint32 // From 0: no range, only Until and LiveSince
	Until     uint32
	LiveSince uint32
	Part      uint64 // the part that ends; the log has no match beyond the range; 0: none
	Fulfilled Fulfilment
	// Next is the first ledger that the backfill has not read; 0 if no backfill is in progress.
	// Matched are the payments in the range that match the watch, and Created those of them that
	// had no event.
	Next             uint32
	Matched, Created uint32
	// Missed is the first ledger with a payment that the watch could not report, because its
	// endpoint is deleted; 0: none. From there on it is not live.
	Missed uint32
}

// PartBegun records that a backfill begins to read a range of ledgers, and pins the watch for it as
// it is at this fact.
type PartBegun struct {
	Request     uint64
	From, To    uint32
	MatchesFrom int64 // [Part.MatchesFrom]
}

// BackfillStopped records why a backfill cannot match its next ledgers. It ends the backfill, or
// makes it continue at a later ledger.
type BackfillStopped struct {
	Request uint64
	Problem string
	Next    uint32 // 0: it ends
}

// DeliveryCreated queues an event for its endpoint.
type DeliveryCreated struct {
	AccountID     string
	EndpointID    string
	WatchID       string // empty for a test.ping
	WalletAddress string // empty for a test.ping
	Event         Event
	// TestBodyHash is the body hash of the command that requested a test.ping. The command is the
	// fact's cause, and is answered when the first attempt has ended.
	TestBodyHash []byte
	Moved        Moved // the event's history at other endpoints
	// Sequence numbers the endpoint's deliveries in the order of their creation: 1, 2, 3 and so on,
	// without a gap.
	Sequence uint64
	Ordered  bool // it waits in the line of its wallet: [OrderingWallet]
}

// AttemptMade records one attempt, with the delivery's next state and time, so that a fold needs no
// schedule.
type AttemptMade struct {
	EventID             string
	EventType           EventType
	Number              int // counts over all runs; 1 is the first
	Run                 int
	Result              AttemptResult // without RetryAfterMillis and hashes
	State               DeliveryState
	NextAttemptAtMillis int64   // 0 unless the state is WAITING
	Trouble             Trouble // of the endpoint after it; zero: the attempt does not count
	Telling             Telling // the endpoint to notify that this one fails
	Entry               LogEntry
}

// DeliveryRecalled restores a forgotten delivery as it had ended, because its event is to be sent
// again.
type DeliveryRecalled struct {
	Delivery Delivery
}

// DeliveryRequeued begins a new run.
type DeliveryRequeued struct {
	EventID             string
	Run                 int
	NextAttemptAtMillis int64
	Reason              RequeueReason
	Body                []byte // the event's, if the delivery had settled
}

// DeliveryCancelled ends a delivery without another attempt.
type DeliveryCancelled struct {
	EventID string
	Reason  CancelReason
}

// CancelReason is why a delivery was cancelled: the state of its endpoint.
type CancelReason string

// Reasons of cancellations. A disabled endpoint cancels only tests that were not sent.
const (
	CancelMissing  CancelReason = "endpoint_missing" // the account never had it
	CancelDeleted  CancelReason = "endpoint_deleted"
	CancelDisabled CancelReason = "endpoint_disabled"
)

// DeliveryMoved hands the event of a cancelled delivery over to another endpoint. The same
// transaction writes a match with the body to that endpoint's partition.
type DeliveryMoved struct {
	EventID      string
	ToEndpointID string
	Moves        int    // handovers of the event, including this one
	Body         []byte // the event's
	Number       uint64 // [Moved.Number]
}

// CommandHandled records the answer to a command, so that a repeat gets the same answer. It belongs
// to the command's aggregate, of which it changes only the version.
type CommandHandled struct {
	CommandID string
	BodyHash  []byte
	Answer    Answer
}

func (AccountCreated) FactType() string    { return "AccountCreated" }
func (KeyCreated) FactType() string        { return "KeyCreated" }
func (KeyRolled) FactType() string         { return "KeyRolled" }
func (KeyRevoked) FactType() string        { return "KeyRevoked" }
func (EndpointCreated) FactType() string   { return "EndpointCreated" }
func (EndpointUpdated) FactType() string   { return "EndpointUpdated" }
func (SecretRotated) FactType() string     { return "SecretRotated" }
func (SecretsResealed) FactType() string   { return "SecretsResealed" }
func (EndpointDisabled) FactType() string  { return "EndpointDisabled" }
func (EndpointEnabled) FactType() string   { return "EndpointEnabled" }
func (EndpointDeleted) FactType() string   { return "EndpointDeleted" }
func (WatchCreated) FactType() string      { return "WatchCreated" }
func (WatchUpdated) FactType() string      { return "WatchUpdated" }
func (WatchDeleted) FactType() string      { return "WatchDeleted" }
func (BackfillRequested) FactType() string { return "BackfillRequested" }
func (RangeCovered) FactType() string      { return "RangeCovered" }
func (PartBegun) FactType() string         { return "PartBegun" }
func (BackfillStopped) FactType() string   { return "BackfillStopped" }
func (DeliveryCreated) FactType() string   { return "DeliveryCreated" }
func (AttemptMade) FactType() string       { return "AttemptMade" }
func (DeliveryRecalled) FactType() string  { return "DeliveryRecalled" }
func (DeliveryRequeued) FactType() string  { return "DeliveryRequeued" }
func (DeliveryCancelled) FactType() string { return "DeliveryCancelled" }
func (DeliveryMoved) FactType() string     { return "DeliveryMoved" }
func (MailOrdered) FactType() string       { return "MailOrdered" }
func (MailAttempted) FactType() string     { return "MailAttempted" }
func (CommandHandled) FactType() string    { return "CommandHandled" }

func (AccountCreated) eventID() string      { return "" }
func (KeyCreated) eventID() string          { return "" }
func (KeyRolled) eventID() string           { return "" }
func (KeyRevoked) eventID() string          { return "" }
func (EndpointCreated) eventID() string     { return "" }
func (EndpointUpdated) eventID() string     { return "" }
func (SecretRotated) eventID() string       { return "" }
func (SecretsResealed) eventID() string     { return "" }
func (EndpointDisabled) eventID() string    { return "" }
func (EndpointEnabled) eventID() string     { return "" }
func (EndpointDeleted) eventID() string     { return "" }
func (WatchCreated) eventID() string        { return "" }
func (WatchUpdated) eventID() string        { return "" }
func (WatchDeleted) eventID() string        { return "" }
func (BackfillRequested) eventID() string   { return "" }
func (RangeCovered) eventID() string        { return "" }
func (PartBegun) eventID() string           { return "" }
func (BackfillStopped) eventID() string     { return "" }
func (b DeliveryCreated) eventID() string   { return b.Event.ID }
func (b AttemptMade) eventID() string       { return b.EventID }
func (b DeliveryRecalled) eventID() string  { return b.Delivery.EventID }
func (b DeliveryRequeued) eventID() string  { return b.EventID }
func (b DeliveryCancelled) eventID() string { return b.EventID }
func (b DeliveryMoved) eventID() string     { return b.EventID }
func (MailOrdered) eventID() string         { return "" }
func (MailAttempted) eventID() string       { return "" }
func (CommandHandled) eventID() string      { return "" }

func (AccountCreated) ofAccount()     {}
func (KeyCreated) ofAccount()         {}
func (KeyRolled) ofAccount()          {}
func (KeyRevoked) ofAccount()         {}
func (EndpointCreated) ofEndpoint()   {}
func (EndpointUpdated) ofEndpoint()   {}
func (SecretRotated) ofEndpoint()     {}
func (SecretsResealed) ofEndpoint()   {}
func (EndpointDisabled) ofEndpoint()  {}
func (EndpointEnabled) ofEndpoint()   {}
func (EndpointDeleted) ofEndpoint()   {}
func (WatchCreated) ofWatch()         {}
func (WatchUpdated) ofWatch()         {}
func (WatchDeleted) ofWatch()         {}
func (BackfillRequested) ofWatch()    {}
func (RangeCovered) ofWatch()         {}
func (PartBegun) ofWatch()            {}
func (BackfillStopped) ofWatch()      {}
func (DeliveryCreated) ofDelivery()   {}
func (AttemptMade) ofDelivery()       {}
func (DeliveryRecalled) ofDelivery()  {}
func (DeliveryRequeued) ofDelivery()  {}
func (DeliveryCancelled) ofDelivery() {}
func (DeliveryMoved) ofDelivery()     {}
func (MailOrdered) ofNotice()         {}
func (MailAttempted) ofNotice()       {}
