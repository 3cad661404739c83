package domain

import "math"

// Command is a request for a change. Its ID makes it idempotent: a repeat gets the same answer.
type Command struct {
	ID             string
	AccountID      string // the caller's account, which can't see objects of other accounts
	KeyID          string // the caller's API key; empty for the operator and for Lumenhook itself
	BodyHash       []byte // SHA-256 of the request's body, which a repeated command must match
	IssuedAtMillis int64
	Body           CommandBody
}

// Kind returns the kind of the aggregate that decides the command.
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

// CommandBody is the body of a command.
//
//sumtype:decl
type CommandBody interface {
	// CommandType returns the name of the command in its topic.
	CommandType() string
	// Aggregate returns the ID of the account, endpoint or watch that decides the command. An endpoint
	// decides the commands on its deliveries.
	Aggregate() string
	// wellFormed implements [Command.WellFormed] for the body, except for the aggregate's ID.
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

// IfRevision fields hold the revision that the caller has read. The command is refused if the
// object has another revision; 0 means no check.

// CreateAccount creates an account with its first key.
type CreateAccount struct {
	AccountID  string
	Email      string
	MoreEmails []string // see [Account.MoreEmails]
	Key        Key
}

// UpdateAccount is an operator's change of an account. It is stored as a [CreateAccount].
type UpdateAccount struct {
	AccountID  string
	Email      string   // empty means no change
	MoreEmails []string // see [Account.MoreEmails]
	Quotas     Counts   // 0 means no change
}

// CreateKey creates an API key.
type CreateKey struct {
	AccountID string
	Key       Key
}

// RollKey replaces a key, which stays valid for a grace period. The caller sets the name,
// permissions and limits of the new key.
type RollKey struct {
	AccountID   string
	KeyID       string
	Key         Key
	GraceMillis int64
}

// RevokeKey ends a key immediately.
type RevokeKey struct {
	AccountID string
	KeyID     string
}

// CreateEndpoint creates an endpoint.
type CreateEndpoint struct {
	EndpointSettings
	EndpointID   string
	AccountID    string
	SealedSecret []byte
}

// UpdateEndpoint changes an endpoint's settings.
type UpdateEndpoint struct {
	EndpointID string
	IfRevision uint64
	Change     EndpointChange
}

// DisableEndpoint stops sending until the endpoint is enabled again.
type DisableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// EnableEndpoint resumes sending, including pending deliveries.
type EnableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// DeleteEndpoint deletes an endpoint and cancels its pending deliveries.
type DeleteEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// RotateSecret sets a new signing secret.
type RotateSecret struct {
	EndpointID   string
	IfRevision   uint64
	SealedSecret []byte
}

// ResealSecrets replaces encrypted values of an endpoint after the master key was rotated. Only the
// process that holds the master key can send it.
type ResealSecrets struct {
	EndpointID string
	Values     []Resealed
}

// Resealed is the encrypted value of a secret or header before and after resealing.
type Resealed struct {
	Was, Sealed []byte
}

// TestEndpoint sends a test.ping or a sample event, which is built from the endpoint's current
// state. Its answer is the result of the first attempt.
type TestEndpoint struct {
	EndpointID string
	Sample     EventType // empty for a test.ping; otherwise PaymentReceived
}

// ReplayEndpoint requeues the failed deliveries of a time range.
type ReplayEndpoint struct {
	EndpointID  string
	SinceMillis int64 // inclusive
	UntilMillis int64 // exclusive; 0 means no end
}

// ReplayEvents requeues the chosen deliveries that are still failed. The caller chose them from the
// history, and the command lists them so that a repeat has the same effect.
type ReplayEvents struct {
	EndpointID string
	EventIDs   []string // at most [MaxReplay], in queueing order
	Matched    int      // number of deliveries that matched the caller's query
}

// ResendEvent requeues a delivery. If it was cancelled, its event moves to its watch's endpoint.
type ResendEvent struct {
	EndpointID   string
	EventID      string
	ToEndpointID string // empty if the watch still has the same endpoint
	Remembered   *Remembered
}

// Remembered is the history's copy of an event to resend. The engine forgets settled deliveries.
type Remembered struct {
	Body     []byte   // the event's exact body
	Delivery Delivery // to the endpoint; zero if the history has no such delivery
	// AsOf is the journal offset in the endpoint's partition up to which the history was read.
	AsOf int64
}

// AsOfAnotherJournal is the AsOf of a copy from another journal's history. It precedes all offsets.
const AsOfAnotherJournal = math.MinInt64 / 2

// RecordMail records a mailer's answer to an order.
type RecordMail struct {
	EndpointID string
	Notice     uint64 // version of the EndpointDisabled fact
	Number     int    // the order's number
	Answer     MailAnswer
	Done       MailDone // addresses that the next order can skip
}

// CreateWatch creates a watch.
type CreateWatch struct {
	Watch Watch
}

// UpdateWatch changes a watch's settings. The wallet can't be changed.
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

// BackfillWatch matches the ledgers From to To against the watch's current rules. Payments for
// which the watch already has an event are skipped.
type BackfillWatch struct {
	WatchID string
	From    uint32
	To      uint32 // 0 means up to the live ledger
	// OfEndpointID limits the caller to the watches of one endpoint; empty means no limit.
	OfEndpointID string
}

// RecordCoverage reports a backfill's progress, once its matches are in the log, or the first
// ledger that a watch sees live. It also claims a payment for a watch that accepts only one.
type RecordCoverage struct {
	WatchID  string
	Request  uint64 // see [Backfill.Request]
	From, To uint32 // the ledgers that were read and are now covered; From is 0 if there are none
	Until    uint32 // the backfill's last ledger
	// LiveSince is the first ledger that the follower matches live, or 0 if not reported.
	LiveSince uint32
	Problem   string // why the next ledger can't be matched; empty if it can, or if none is left
	// Part is the part that ends, or 0. The log has no matches beyond the ledgers that were read. If
	// the part has already ended, the report is late and has no effect.
	Part uint64
	// Next is the part to start, if From isn't 0. With a Problem, From is the first ledger after it.
	Next NextPart
	// Fulfils is a payment that matches revision IfRevision of a watch for one payment. The answer is
	// the watch, whose Fulfilled is the payment that it accepted. Such a command reports nothing else.
	Fulfils    Fulfilment
	IfRevision uint64
	// See [RangeCovered]; both count payments in From to To.
	Matched, Created uint32
	// Missed is the ledger of a payment that matches revision IfRevision of the watch, but can't be
	// delivered because the watch's endpoint was deleted; 0 if there is none. The answer is the watch.
	// Such a command reports nothing else.
	Missed uint32
}

// NextPart is the part of a backfill to start.
type NextPart struct {
	Range
	// EndpointID is the watch's endpoint as known to the follower. If the watch has another one, the
	// part doesn't start, because MatchesFrom is an offset in this endpoint's partition.
	EndpointID  string
	MatchesFrom int64 // see [Part.MatchesFrom]
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
