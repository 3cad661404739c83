package domain

import "math"

// Command requests a change. Its identifier makes it idempotent: a repeat gets the same answer and
// changes nothing.
type Command struct {
	ID             string
	AccountID      string // the caller's, which cannot see the objects of other accounts
	KeyID          string // the caller's API key; empty: the operator, or the service itself
	BodyHash       []byte // SHA-256 of the request's body: a repeat has the same
	IssuedAtMillis int64
	Body           CommandBody
}

// Kind returns the kind of the command's aggregate.
func (c Command) Kind() Kind {
	switch c.Body.(type) {
	case AccountCommand:
		return KindAccount
	case EndpointCommand:
		return KindEndpoint
	case WatchCommand:
		return KindWatch
	default:
		return KindNone
	}
}

// CommandBody is one kind of command.
//
//sumtype:decl
type CommandBody interface {
	// CommandType is the name of the command in its topic.
	CommandType() string
	// Aggregate is the identifier of the account, endpoint or watch that decides the command. An
	// endpoint decides commands on its deliveries.
	Aggregate() string
	// wellFormed is [Command.WellFormed] of the body, except for the aggregate.
	wellFormed() error
}

// AccountCommand is a command on an account.
//
//sumtype:decl
type AccountCommand interface {
	CommandBody
	ofAccount()
}

// EndpointCommand is a command on an endpoint or its deliveries.
//
//sumtype:decl
type EndpointCommand interface {
	CommandBody
	ofEndpoint()
}

// WatchCommand is a command on a watch.
//
//sumtype:decl
type WatchCommand interface {
	CommandBody
	ofWatch()
}

// Fields named IfRevision hold the revision that the caller has seen. The command is refused if the
// object has another; 0 means no check.

// CreateAccount creates an account with a first key.
type CreateAccount struct {
	AccountID  string
	Email      string
	MoreEmails []string // [Account.MoreEmails]
	Key        Key
}

// UpdateAccount changes the email addresses and quotas of an account. It comes from the operator of
// the service, and is stored as a [CreateAccount].
type UpdateAccount struct {
	AccountID  string
	Email      string   // empty: no change
	MoreEmails []string // [Account.MoreEmails]
	Quotas     Counts   // 0: no change
}

// CreateKey creates another API key.
type CreateKey struct {
	AccountID string
	Key       Key
}

// RollKey replaces a key, which stays valid for a while. The caller sets the new key's name,
// permissions and bounds.
type RollKey struct {
	AccountID   string
	KeyID       string
	Key         Key
	GraceMillis int64
}

// RevokeKey ends a key at once.
type RevokeKey struct {
	AccountID string
	KeyID     string
}

// CreateEndpoint creates an endpoint. The caller has sealed the secret.
type CreateEndpoint struct {
	EndpointSettings
	EndpointID   string
	AccountID    string
	SealedSecret []byte
}

// UpdateEndpoint changes settings of an endpoint.
type UpdateEndpoint struct {
	EndpointID string
	IfRevision uint64
	Change     EndpointChange
}

// DisableEndpoint stops sending until the endpoint is enabled.
type DisableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// EnableEndpoint continues sending, including the pending deliveries.
type EnableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// DeleteEndpoint deletes an endpoint and cancels its pending deliveries.
type DeleteEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// RotateSecret sets a new signing secret, which the caller has sealed.
type RotateSecret struct {
	EndpointID   string
	IfRevision   uint64
	SealedSecret []byte
}

// ResealSecrets stores values of an endpoint under another seal, because the master key was
// rotated. It comes from the holder of the master key.
type ResealSecrets struct {
	EndpointID string
	Values     []Resealed
}

// Resealed is the sealed value of a secret or a header, before and after.
type Resealed struct {
	Was, Sealed []byte
}

// TestEndpoint sends a test.ping, or a sample of another type. Its answer is the first attempt. The
// decision makes the event from the endpoint as it is then.
type TestEndpoint struct {
	EndpointID string
	Sample     EventType // empty: a test.ping; else PaymentReceived
}

// ReplayEndpoint queues the failed deliveries of a time range again.
type ReplayEndpoint struct {
	EndpointID  string
	SinceMillis int64 // inclusive
	UntilMillis int64 // exclusive; 0: no end
}

// ReplayEvents queues chosen deliveries again that are still failed. The caller chose them from the
// history. The command carries the choice, so that a repeat finds the same. It is stored as a
// [ReplayEndpoint].
type ReplayEvents struct {
	EndpointID string
	EventIDs   []string // at most [MaxReplay], in the order in which they are queued
	Matched    int      // the number of deliveries that they were chosen from
}

// ResendEvent queues one delivery again or, if it was cancelled, hands its event over to the
// endpoint that its watch has now.
type ResendEvent struct {
	EndpointID   string
	EventID      string
	ToEndpointID string // empty: it has not moved
	Remembered   *Remembered
}

// Remembered is the history's copy of an event to send again: the engine forgets settled
// deliveries.
type Remembered struct {
	Body     []byte   // the event's, byte for byte
	Delivery Delivery // to the endpoint; zero if the history has no such delivery
	// AsOf is the journal offset, in the endpoint's partition, up to which the history was read.
	AsOf int64
}

// AsOfAnotherJournal is the AsOf of a copy from the history of another journal: before any offset.
const AsOfAnotherJournal = math.MinInt64 / 2

// RecordMail is a mailer's answer to an order.
type RecordMail struct {
	EndpointID string
	Notice     uint64 // version of the EndpointDisabled
	Number     int    // of the order
	Answer     MailAnswer
	Done       MailDone // the addresses that no order needs to try again
}

// CreateWatch creates a watch.
type CreateWatch struct {
	Watch Watch
}

// UpdateWatch changes settings of a watch. Its wallet cannot change.
type UpdateWatch struct {
	WatchID    string
	IfRevision uint64
	Change     WatchChange
}

// DeleteWatch deletes a watch.
type DeleteWatch struct {
	WatchID    string
	IfRevision uint64
}

// BackfillWatch matches the ledgers from From to To against the watch as it is now. Payments that
// have an event of the watch are skipped.
type BackfillWatch struct {
	WatchID string
	From    uint32
	To      uint32 // 0: up to the live ledger
	// OfEndpointID is the only endpoint whose watches the caller may see; empty: any.
	OfEndpointID string
}

// RecordCoverage is the follower's report of a backfill's progress, whose matches are all in the
// log by then, or of the first ledger that a watch sees live. It also claims a payment for a watch
// for one payment.
type RecordCoverage struct {
	WatchID  string
	Request  uint64 // Backfill.Request
	From, To uint32 // the ledgers that were read and are covered now; From 0: none
	Until    uint32 // the last ledger of the backfill
	// LiveSince is the first ledger that the follower matches live; 0: not reported.
	LiveSince uint32
	Problem   string // why its next ledger cannot be matched; empty: it can, or none is left
	// Part is the part that ends; the log has no match beyond the ledgers that were read; 0: none.
	// If the part has ended before, the report is late and changes nothing.
	Part uint64
	// Next is the part to begin; From 0: none. With a Problem, Next.From is the first later ledger
	// that can be matched.
	Next NextPart
	// Fulfils is a payment that a watch for one payment would take, by its revision IfRevision. The
	// answer is the watch, whose Fulfilled is the payment that it has taken. Such a command reports
	// nothing else.
	Fulfils    Fulfilment
	IfRevision uint64
	// Matched and Created are those of [RangeCovered], for From to To.
	Matched, Created uint32
	// Missed is the ledger of a payment that matches the watch, by its revision IfRevision,
	// although the watch's endpoint is deleted; 0: none. The answer is the watch. Such a command
	// reports nothing else.
	Missed uint32
}

// NextPart is the part of a backfill to begin.
type NextPart struct {
	Range
	// EndpointID is the watch's endpoint as the follower knows it. If the watch has another, the
	// part does not begin: MatchesFrom is an offset of this endpoint's partition.
	EndpointID  string
	MatchesFrom int64 // [Part.MatchesFrom]
}

func (CreateAccount) CommandType() string   { return "CreateAccount" }
func (UpdateAccount) CommandType() string   { return "CreateAccount" }
func (CreateKey) CommandType() string       { return "CreateKey" }
func (RollKey) CommandType() string         { return "RollKey" }
func (RevokeKey) CommandType() string       { return "RevokeKey" }
func (CreateEndpoint) CommandType() string  { return "CreateEndpoint" }
func (UpdateEndpoint) CommandType() string  { return "UpdateEndpoint" }
func (DisableEndpoint) CommandType() string { return "DisableEndpoint" }
func (EnableEndpoint) CommandType() string  { return "EnableEndpoint" }
func (DeleteEndpoint) CommandType() string  { return "DeleteEndpoint" }
func (RotateSecret) CommandType() string    { return "RotateSecret" }
func (ResealSecrets) CommandType() string   { return "ResealSecrets" }
func (TestEndpoint) CommandType() string    { return "TestEndpoint" }
func (ReplayEndpoint) CommandType() string  { return "ReplayEndpoint" }
func (ReplayEvents) CommandType() string    { return "ReplayEndpoint" }
func (ResendEvent) CommandType() string     { return "ResendEvent" }
func (RecordMail) CommandType() string      { return "RecordMail" }
func (CreateWatch) CommandType() string     { return "CreateWatch" }
func (UpdateWatch) CommandType() string     { return "UpdateWatch" }
func (DeleteWatch) CommandType() string     { return "DeleteWatch" }
func (BackfillWatch) CommandType() string   { return "BackfillWatch" }
func (RecordCoverage) CommandType() string  { return "RecordCoverage" }

func (c CreateAccount) Aggregate() string   { return c.AccountID }
func (c UpdateAccount) Aggregate() string   { return c.AccountID }
func (c CreateKey) Aggregate() string       { return c.AccountID }
func (c RollKey) Aggregate() string         { return c.AccountID }
func (c RevokeKey) Aggregate() string       { return c.AccountID }
func (c CreateEndpoint) Aggregate() string  { return c.EndpointID }
func (c UpdateEndpoint) Aggregate() string  { return c.EndpointID }
func (c DisableEndpoint) Aggregate() string { return c.EndpointID }
func (c EnableEndpoint) Aggregate() string  { return c.EndpointID }
func (c DeleteEndpoint) Aggregate() string  { return c.EndpointID }
func (c RotateSecret) Aggregate() string    { return c.EndpointID }
func (c ResealSecrets) Aggregate() string   { return c.EndpointID }
func (c TestEndpoint) Aggregate() string    { return c.EndpointID }
func (c ReplayEndpoint) Aggregate() string  { return c.EndpointID }
func (c ReplayEvents) Aggregate() string    { return c.EndpointID }
func (c ResendEvent) Aggregate() string     { return c.EndpointID }
func (c RecordMail) Aggregate() string      { return c.EndpointID }
func (c CreateWatch) Aggregate() string     { return c.Watch.ID }
func (c UpdateWatch) Aggregate() string     { return c.WatchID }
func (c DeleteWatch) Aggregate() string     { return c.WatchID }
func (c BackfillWatch) Aggregate() string   { return c.WatchID }
func (c RecordCoverage) Aggregate() string  { return c.WatchID }

func (CreateAccount) ofAccount()    {}
func (UpdateAccount) ofAccount()    {}
func (CreateKey) ofAccount()        {}
func (RollKey) ofAccount()          {}
func (RevokeKey) ofAccount()        {}
func (CreateEndpoint) ofEndpoint()  {}
func (UpdateEndpoint) ofEndpoint()  {}
func (DisableEndpoint) ofEndpoint() {}
func (EnableEndpoint) ofEndpoint()  {}
func (DeleteEndpoint) ofEndpoint()  {}
func (RotateSecret) ofEndpoint()    {}
func (ResealSecrets) ofEndpoint()   {}
func (TestEndpoint) ofEndpoint()    {}
func (ReplayEndpoint) ofEndpoint()  {}
func (ReplayEvents) ofEndpoint()    {}
func (ResendEvent) ofEndpoint()     {}
func (RecordMail) ofEndpoint()      {}
func (CreateWatch) ofWatch()        {}
func (UpdateWatch) ofWatch()        {}
func (DeleteWatch) ofWatch()        {}
func (BackfillWatch) ofWatch()      {}
func (RecordCoverage) ofWatch()     {}
