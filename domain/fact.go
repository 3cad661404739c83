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

// EventID returns the event whose delivery the fact is about; empty: it is about
// none.
func (f Fact) EventID() string { return f.Body.eventID() }

// FactBody is one kind of fact.
//
//sumtype:decl
type FactBody interface {
	// FactType is the name under which the fact is kept in the journal.
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

// NoticeFact is a fact about one notice, in the aggregate of its endpoint. The first
// fact of a notice is the [EndpointDisabled] itself.
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

// AccountCreated opens an account, or gives one that is there other emails.
type AccountCreated struct {
	AccountID  string
	Email      string
	MoreEmails []string // [Account.MoreEmails]
	Updated    bool     // it was there
	Quotas     Counts   // [Account.Quotas]
}

// KeyCreated adds an API key to an account.
type KeyCreated struct {
	Key Key
}

// KeyRolled puts a key in the place of another, which ends later.
type KeyRolled struct {
	KeyID           string // the earlier key
	ExpiresAtMillis int64  // its end
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

// EndpointUpdated changes settings of an endpoint. Pending deliveries go by the
// new ones.
type EndpointUpdated struct {
	Change EndpointChange
}

// SecretRotated gives an endpoint another current secret. The former one signs
// for 24 hours more.
type SecretRotated struct {
	Secret SealedSecret
}

// SecretsResealed keeps the same secrets and header values under another seal. It
// holds all of them, as they are kept from now on.
type SecretsResealed struct {
	Secrets []SealedSecret
	Headers []Header
}

// EndpointDisabled stops the sending. What was met last is told to the account
// holder; it is empty when a person disabled the endpoint.
type EndpointDisabled struct {
	Reason         DisabledReason
	EventID        string
	LastStatusCode int // 0: no status arrived
	LastError      AttemptError
	Telling        Telling // other endpoints to notify
	// FailingSinceMillis is [Trouble.SinceMillis] of the streak that it ends; 0: not known.
	FailingSinceMillis int64
}

// MailOrdered asks a mailer to mail a notice. The order stands in the topic "mails",
// in the same transaction.
type MailOrdered struct {
	Notice       uint64 // version of the EndpointDisabled
	Number       int    // of the order; 1 is the notice's first
	NextAtMillis int64  // when it is ordered again if there is no answer
}

// MailAttempted records what came of an order, or that there is to be none.
type MailAttempted struct {
	Notice       uint64
	Number       int // of the order
	Outcome      MailOutcome
	NextAtMillis int64    // of the next order; 0 unless the outcome is MailRetried
	Done         MailDone // the addresses that the next order passes by
}

// EndpointEnabled resumes sending: pending deliveries are due at once.
type EndpointEnabled struct{}

// EndpointDeleted ends an endpoint. Its pending deliveries are cancelled by
// facts of their own.
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

// BackfillRequested begins a backfill of a watch. Its request is the fact's
// version.
type BackfillRequested struct {
	From uint32
	To   uint32 // 0: to where the live ledger is followed
}

// RangeCovered says that the payments of a range of ledgers were matched against a
// watch, and what came of it is in the log; or that a watch for one payment has it.
type RangeCovered struct {
	Request   uint64
	From, To  uint32 // From 0: no range, only Until and LiveSince
	Until     uint32
	LiveSince uint32
	Part      uint64 // that ends, with nothing in the log beyond the range; 0: none
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

// PartBegun says that a range of ledgers is read for a backfill from now on, and
// pins the watch for it, as it is at this fact.
type PartBegun struct {
	Request     uint64
	From, To    uint32
	MatchesFrom int64 // [Part.MatchesFrom]
}

// BackfillStopped says why a backfill cannot match ledgers from its next one on. It ends the
// backfill, or has it continue at a later ledger.
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
	// TestBodyHash is the body hash of the command that asked for a test.ping,
	// which is the fact's cause; the command is answered when the first attempt
	// has ended.
	TestBodyHash []byte
	Moved        Moved // what the event has behind it at other endpoints
	// Sequence is the endpoint's next number: its deliveries are 1, 2, 3 and so on, without
	// a gap, in the order of their creation. 0 in facts of versions that gave none.
	Sequence uint64
	Ordered  bool // it stands in the line of its wallet: [OrderingWallet]
}

// AttemptMade records one attempt and what it made of the delivery. The next
// state and time are part of the fact, so that a fold needs no schedule.
type AttemptMade struct {
	EventID             string
	EventType           EventType
	Number              int // counts over all runs; 1 is the first
	Run                 int
	Result              AttemptResult // without RetryAfterMillis, which is not kept, and hashes
	State               DeliveryState
	NextAttemptAtMillis int64   // 0 unless the state is WAITING
	Trouble             Trouble // of the endpoint after it; zero: the attempt is no part of one
	Telling             Telling // endpoints to notify that the endpoint fails, from this attempt on
	Entry               LogEntry
}

// DeliveryRecalled restores a delivery that was forgotten, as it had ended, since its
// event is asked for again.
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
	Reason  CancelReason // empty in facts of versions that gave none
}

// CancelReason is why a delivery was cancelled: what its endpoint was by then.
type CancelReason string

// The reasons. Of a disabled endpoint only a test that was not sent is cancelled.
const (
	CancelMissing  CancelReason = "endpoint_missing" // the account never had it
	CancelDeleted  CancelReason = "endpoint_deleted"
	CancelDisabled CancelReason = "endpoint_disabled"
)

// DeliveryMoved hands the event of a cancelled delivery over to another endpoint.
// The body goes there in a match, in the same transaction.
type DeliveryMoved struct {
	EventID      string
	ToEndpointID string
	Moves        int    // hand-overs of the event, this one included
	Body         []byte // the event's
	Number       uint64 // [Moved.Number]
}

// CommandHandled records the answer to a command, so that a repeat of it is
// answered alike. It is of the aggregate that was asked, and changes nothing but
// its version.
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
