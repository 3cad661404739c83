package domain

import "math"

// Command asks for a change. Its identifier makes it idempotent: asked again, it
// is answered as before and changes nothing.
type Command struct {
	ID             string
	AccountID      string // who asks; what another account owns does not exist for it
	KeyID          string // the API key that asks; empty: the operator, or the service itself
	BodyHash       []byte // SHA-256 of the request's body, to tell a repeat from another request
	IssuedAtMillis int64
	Body           CommandBody
}

// Kind returns the kind of the aggregate asked about.
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
	// CommandType is the name under which the command is kept in a topic.
	CommandType() string
	// Aggregate is the identifier of the account, endpoint or watch asked about.
	// What concerns a delivery is asked of its endpoint.
	Aggregate() string
	// wellFormed is [Command.WellFormed] of the body, but for the aggregate.
	wellFormed() error
}

// AccountCommand is a command that an account answers.
//
//sumtype:decl
type AccountCommand interface {
	CommandBody
	ofAccount()
}

// EndpointCommand is a command that an endpoint answers, alone or with its
// deliveries.
//
//sumtype:decl
type EndpointCommand interface {
	CommandBody
	ofEndpoint()
}

// WatchCommand is a command that a watch answers.
//
//sumtype:decl
type WatchCommand interface {
	CommandBody
	ofWatch()
}

// Fields named IfRevision hold the revision that the asker has seen, and the
// command is refused if the object has another; 0 asks for no check.

// CreateAccount asks for a new account with a first key.
type CreateAccount struct {
	AccountID  string
	Email      string
	MoreEmails []string // [Account.MoreEmails]
	Key        Key
}

// UpdateAccount requests other addresses for mails to the holder of an account. It comes from the
// operator of the service, and is stored as a [CreateAccount].
type UpdateAccount struct {
	AccountID  string
	Email      string   // empty: the addresses stay
	MoreEmails []string // [Account.MoreEmails]
	Quotas     Counts   // 0 leaves one as it is
}

// CreateKey asks for another API key.
type CreateKey struct {
	AccountID string
	Key       Key
}

// RollKey requests a replacement for a key, which stays valid for a while. The caller sets the new
// key's name, permissions and bounds.
type RollKey struct {
	AccountID   string
	KeyID       string
	Key         Key
	GraceMillis int64
}

// RevokeKey asks for a key to work no longer.
type RevokeKey struct {
	AccountID string
	KeyID     string
}

// CreateEndpoint asks for a new endpoint. The secret was sealed by the asker.
type CreateEndpoint struct {
	EndpointSettings
	EndpointID   string
	AccountID    string
	SealedSecret []byte
}

// UpdateEndpoint asks for other settings of an endpoint.
type UpdateEndpoint struct {
	EndpointID string
	IfRevision uint64
	Change     EndpointChange
}

// DisableEndpoint asks for nothing to be sent until the endpoint is enabled.
type DisableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// EnableEndpoint requests sending to continue, including the pending deliveries.
type EnableEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// DeleteEndpoint asks for an endpoint to be gone, and its pending deliveries
// with it.
type DeleteEndpoint struct {
	EndpointID string
	IfRevision uint64
}

// RotateSecret asks for a new signing secret, sealed by the asker.
type RotateSecret struct {
	EndpointID   string
	IfRevision   uint64
	SealedSecret []byte
}

// ResealSecrets requests values of an endpoint to be stored under another seal, because the master
// key was rotated. It comes from the holder of the master key.
type ResealSecrets struct {
	EndpointID string
	Values     []Resealed
}

// Resealed is one sealed value, a secret's or a header's: as it was found, and as
// it is to be.
type Resealed struct {
	Was, Sealed []byte
}

// TestEndpoint asks for a test.ping, or a sample of another type, and to be answered with its
// first attempt. The event is made where it is decided, out of the endpoint as it then is.
type TestEndpoint struct {
	EndpointID string
	Sample     EventType // empty: a test.ping; else PaymentReceived
}

// ReplayEndpoint asks for the failed deliveries that were created in a span of
// time to be queued again.
type ReplayEndpoint struct {
	EndpointID  string
	SinceMillis int64 // inclusive
	UntilMillis int64 // exclusive; 0: no end
}

// ReplayEvents asks for failed deliveries that were chosen to be queued again: those of the
// events that are still failed. The choice is the asker's, made out of the history, and the
// command carries it, so that a repeat finds the first one. It is kept as a [ReplayEndpoint].
type ReplayEvents struct {
	EndpointID string
	EventIDs   []string // at most [MaxReplay], in the order in which they are queued
	Matched    int      // of how many they were chosen
}

// ResendEvent asks for one delivery to be queued again, or, if it was cancelled,
// for its event to be handed over to the endpoint that its watch has now.
type ResendEvent struct {
	EndpointID   string
	EventID      string
	ToEndpointID string // empty: it has not moved
	Remembered   *Remembered
}

// Remembered is the history's copy of an event that is to be sent again, because the engine forgets
// settled deliveries.
type Remembered struct {
	Body     []byte   // the event's, byte for byte
	Delivery Delivery // to the endpoint; zero if the history has no such delivery
	// AsOf is the offset of the journal, in the partition of the endpoint, that the history
	// had been read up to.
	AsOf int64
}

// AsOfAnotherJournal is the AsOf of what was read in the history of another journal: it is
// behind any.
const AsOfAnotherJournal = math.MinInt64 / 2

// RecordMail is a mailer's answer to an order.
type RecordMail struct {
	EndpointID string
	Notice     uint64 // version of the EndpointDisabled
	Number     int    // of the order
	Answer     MailAnswer
	Done       MailDone // the addresses that no order needs to try again
}

// CreateWatch asks for a new watch.
type CreateWatch struct {
	Watch Watch
}

// UpdateWatch asks for other settings of a watch. Its wallet cannot change.
type UpdateWatch struct {
	WatchID    string
	IfRevision uint64
	Change     WatchChange
}

// DeleteWatch asks for a watch to be gone.
type DeleteWatch struct {
	WatchID    string
	IfRevision uint64
}

// BackfillWatch requests that the ledgers from From to To are matched against the watch as it
// is now. Payments that have an event of the watch are skipped.
type BackfillWatch struct {
	WatchID string
	From    uint32
	To      uint32 // 0: to where the live ledger is followed
	// OfEndpointID is the endpoint that the watch must be of: who asks sees those of no other; empty:
	// whichever.
	OfEndpointID string
}

// RecordCoverage is the follower's word for what it has done of a backfill, whose
// matches are all in the log by then, or for where the watch is live; or it asks whether a payment
// is the one that a watch is for.
type RecordCoverage struct {
	WatchID  string
	Request  uint64 // Backfill.Request
	From, To uint32 // what was read and is covered now; From 0: nothing
	Until    uint32 // the last ledger of the backfill
	// the ledger from which on the follower sees the watch; 0: it says nothing of that
	LiveSince uint32
	Problem   string // why its next ledger cannot be matched; empty: it can, or none is left
	// Part is the part that ends, with nothing in the log beyond what was read; 0: none. If it
	// has ended before, the report is late and changes nothing.
	Part uint64
	// Next is the part to be begun; From 0: none. With a Problem, Next.From is the first later
	// ledger that can be matched.
	Next NextPart
	// Fulfils is a payment that a watch for one payment would take, judged by its revision
	// IfRevision. It is answered by the watch, whose Fulfilled says what it has taken. With it,
	// nothing else is reported.
	Fulfils    Fulfilment
	IfRevision uint64
	// Matched and Created are those of [RangeCovered], for From to To.
	Matched, Created uint32
	// Missed is the ledger of a payment that matches the watch, by its revision IfRevision, and
	// whose endpoint is deleted; 0: none. It is answered by the watch. With it, nothing else is
	// reported.
	Missed uint32
}

// NextPart is the part of a backfill that is to be begun.
type NextPart struct {
	Range
	// EndpointID is the watch's endpoint as the follower knows it. The part is not begun for
	// another: MatchesFrom is an offset of its partition.
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
