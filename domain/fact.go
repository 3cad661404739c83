package domain

// Fact records something that happened to an aggregate. An aggregate's versions are consecutive.
type Fact struct {
	Aggregate string // account, endpoint or watch ID
	Version   uint64
	AtMillis  int64
	Cause     string // ID of the command that caused it; empty for payments and attempts
	Body      FactBody
}

// EventID returns the ID of the event whose delivery the fact is about, or "".
func (f Fact) EventID() string { return f.Body.eventID() }

// FactBody is the body of a fact.
//
//sumtype:decl
type FactBody interface {
	// FactType returns the name of the fact in the journal.
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

// EndpointFact is a fact that changes an endpoint itself.
//
//sumtype:decl
type EndpointFact interface {
	FactBody
	ofEndpoint()
}

// DeliveryFact is a fact about a delivery. It belongs to the aggregate of the endpoint.
//
//sumtype:decl
type DeliveryFact interface {
	FactBody
	ofDelivery()
}

// NoticeFact is a fact about a notice. It belongs to the aggregate of the endpoint. A notice starts
// with an [EndpointDisabled].
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
	MoreEmails []string // see [Account.MoreEmails]
	Updated    bool     // the account already existed
	Quotas     Counts   // see [Account.Quotas]
}

// KeyCreated adds an API key to an account.
type KeyCreated struct {
	Key Key
}

// KeyRolled replaces a key. The old key expires later.
type KeyRolled struct {
	KeyID           string // the old key
	ExpiresAtMillis int64  // of the old key
	Key             Key    // the new key
}

// KeyRevoked ends an API key immediately.
type KeyRevoked struct {
	KeyID string
}

// EndpointCreated creates an endpoint.
type EndpointCreated struct {
	EndpointSettings
	EndpointID string
	AccountID  string
	Secret     SealedSecret
}

// EndpointUpdated changes an endpoint's settings. Pending deliveries use the new ones.
type EndpointUpdated struct {
	Change EndpointChange
}

// SecretRotated sets a new signing secret. The previous one continues to sign for 24 hours.
type SecretRotated struct {
	Secret SealedSecret
}

// SecretsResealed replaces all secrets and header values, encrypted with another master key.
type SecretsResealed struct {
	Secrets []SealedSecret
	Headers []Header
}

// EndpointDisabled stops sending. The email to the account holder shows the last attempt, which is
// empty if a user disabled the endpoint.
type EndpointDisabled struct {
	Reason         DisabledReason
	EventID        string
	LastStatusCode int // 0 if no status arrived
	LastError      AttemptError
	Telling        Telling // the endpoint to notify
	// See [Trouble.SinceMillis]; 0 if unknown.
	FailingSinceMillis int64
}

// MailOrdered orders the mail of a notice, in the same transaction as the record of "mails".
type MailOrdered struct {
	Notice       uint64 // version of the EndpointDisabled fact
	Number       int    // the order's number, from 1 per notice
	NextAtMillis int64  // time of the next order if no answer arrives
}

// MailAttempted records the result of an order, or that no order will be made.
type MailAttempted struct {
	Notice       uint64
	Number       int // the order's number
	Outcome      MailOutcome
	NextAtMillis int64    // time of the next order; 0 unless the outcome is MailRetried
	Done         MailDone // addresses that the next order can skip
}

// EndpointEnabled resumes sending. Pending deliveries are due immediately.
type EndpointEnabled struct{}

// EndpointDeleted deletes an endpoint. Separate facts cancel its pending deliveries.
type EndpointDeleted struct{}

// WatchCreated creates a watch. The watch's version is the fact's.
type WatchCreated struct {
	Watch Watch
}

// WatchUpdated changes a watch's settings.
type WatchUpdated struct {
	Change WatchChange
}

// WatchDeleted deletes a watch.
type WatchDeleted struct{}

// BackfillRequested requests a backfill. The fact's version identifies it.
type BackfillRequested struct {
	From uint32
	To   uint32 // 0 means up to the live ledger
}

// RangeCovered records that the payments of a ledger range were matched against a watch and that
// all matches have been written to the log. It also records the payment that fulfils a watch.
type RangeCovered struct {
	Request   uint64
	From, To  uint32 // From is 0 if there is no range, only Until and LiveSince
	Until     uint32
	LiveSince uint32
	Part      uint64 // the part that ends, or 0; the log has no matches beyond the range
	Fulfilled Fulfilment
	// Next is the first ledger that the backfill has not read, or 0 if none is in progress. Matched
	// counts the payments in the range that match the watch, and Created the events created for them.
	Next             uint32
	Matched, Created uint32
	// Missed is the first ledger with a payment that the watch could not report because its endpoint
	// was deleted; 0 if there is none. The watch is not live from there on.
	Missed uint32
}

// PartBegun records that a backfill starts to read a range, using the watch as it is at this fact.
type PartBegun struct {
	Request     uint64
	From, To    uint32
	MatchesFrom int64 // see [Part.MatchesFrom]
}

// BackfillStopped records why a backfill can't match its next ledgers, and whether it continues.
type BackfillStopped struct {
	Request uint64
	Problem string
	Next    uint32 // 0 if the backfill ends
}

// DeliveryCreated queues an event for its endpoint.
type DeliveryCreated struct {
	AccountID     string
	EndpointID    string
	WatchID       string // empty for a test.ping
	WalletAddress string // empty for a test.ping
	Event         Event
	// TestBodyHash is the body hash of the command that requested a test.ping. The command's ID is the
	// fact's cause, and it is answered when the first attempt has ended.
	TestBodyHash []byte
	Moved        Moved // the event's history at other endpoints
	// Sequence numbers the endpoint's deliveries in order of creation, from 1 and without gaps.
	Sequence uint64
	Ordered  bool // it waits in line; see [OrderingWallet]
}

// AttemptMade records an attempt. It includes the delivery's next state and due time, so that a
// fold doesn't depend on the retry schedule.
type AttemptMade struct {
	EventID             string
	EventType           EventType
	Number              int // counts across all runs, from 1
	Run                 int
	Result              AttemptResult // without RetryAfterMillis and hashes
	State               DeliveryState
	NextAttemptAtMillis int64   // 0 unless the state is WAITING
	Trouble             Trouble // the endpoint's trouble afterwards; zero if the attempt doesn't count
	Telling             Telling // the endpoint to notify that this one is failing
	Entry               LogEntry
}

// DeliveryRecalled restores a forgotten delivery as it ended, so that its event can be resent.
type DeliveryRecalled struct {
	Delivery Delivery
}

// DeliveryRequeued starts a new run.
type DeliveryRequeued struct {
	EventID             string
	Run                 int
	NextAttemptAtMillis int64
	Reason              RequeueReason
	Body                []byte // the event's body, if the delivery had settled
}

// DeliveryCancelled ends a delivery without further attempts.
type DeliveryCancelled struct {
	EventID string
	Reason  CancelReason
}

// CancelReason is the reason why a delivery was cancelled.
type CancelReason string

// Reasons for cancelling a delivery. A disabled endpoint only cancels unsent tests.
const (
	CancelMissing  CancelReason = "endpoint_missing" // the account never had the endpoint
	CancelDeleted  CancelReason = "endpoint_deleted"
	CancelDisabled CancelReason = "endpoint_disabled"
)

// DeliveryMoved hands a cancelled delivery's event over to another endpoint. The same transaction
// writes a match with the event's body to that endpoint's partition.
type DeliveryMoved struct {
	EventID      string
	ToEndpointID string
	Moves        int    // handovers of the event, including this one
	Body         []byte // the event's body
	Number       uint64 // see [Moved.Number]
}

// CommandHandled records the answer to a command, so that a repeated command gets the same answer.
// It belongs to the command's aggregate but only changes its version.
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
