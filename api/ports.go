package api

import (
	"context"
	"crypto/ed25519"
	"errors"

	"github.com/lumenhook/lumenhook/domain"
)

// Errors that the parts behind the API may return, wrapped or bare.
var (
	// ErrCommandUnanswered means that a command was submitted and no result arrived in
	// time. The command still takes effect, exactly once.
	ErrCommandUnanswered = errors.New("the command was not answered in time")
	// ErrWritesRefused means that a command was not submitted and never takes effect: no
	// broker can be reached, or the disk is full.
	ErrWritesRefused = errors.New("no command is taken now")

	// ErrEventNotFound means that the history is up to date and the account has no such
	// event.
	ErrEventNotFound = errors.New("no such event")
	// ErrEventExpired means that the history has what became of the event, and its body no
	// longer.
	ErrEventExpired = errors.New("the event is no longer kept")
	// ErrHistoryBehind means that the history did not catch up in time, so that it is
	// unknown whether the event exists.
	ErrHistoryBehind = errors.New("the history is behind")
	// ErrManyBalances means that more balances of a wallet moved than one statement has.
	ErrManyBalances = errors.New("too many balances moved")
	// ErrFactsMissing means that the first facts of an object are not kept, so that it cannot be
	// folded.
	ErrFactsMissing = errors.New("the first facts are not kept")
	// ErrManyFacts means that an object has more facts than are folded.
	ErrManyFacts = errors.New("too many facts")
	// ErrHistoryUnavailable means that the history cannot be read.
	ErrHistoryUnavailable = errors.New("the history is unavailable")
)

// Commands submits commands to the engine.
type Commands interface {
	// Submit returns the engine's answer after it is committed. It waits for a bounded time
	// of its own, well under 15 s, then returns ErrCommandUnanswered; ErrWritesRefused only
	// if the command can never take effect. A repeated command is answered with Replayed,
	// the first answer and the first body hash.
	Submit(context.Context, domain.Command) (domain.Result, error)
}

// Directory is the read model of accounts, endpoints and watches.
type Directory interface {
	// Fresh fails while this node has not confirmed within the last seconds that it has
	// read the tables to their ends: no request is admitted meanwhile, so that a revoked
	// key is refused everywhere.
	Fresh() error
	// CatchUp returns when this node has read everything that was acknowledged before the
	// call, or an error.
	CatchUp(ctx context.Context) error
	// KeyByHash finds an API key by its domain.APIKeyHash.
	KeyByHash(hash []byte) (key domain.Key, accountID string, found bool, err error)
	// KeyUsedAt returns when a key was last used, to the minute; 0: never, or unknown.
	KeyUsedAt(keyID string) (millis int64, err error)
	// Account returns an account with its keys.
	Account(id string) (domain.Account, bool, error)
	// Endpoint returns an endpoint of any account. A deleted one is not found, or has that
	// status.
	Endpoint(id string) (domain.Endpoint, bool, error)
	// Watch returns a watch of any account. A deleted one is not found, or has that status.
	Watch(id string) (domain.Watch, bool, error)
	// Endpoints lists endpoints of an account, newest first, from after a position on, at
	// most limit of them. next is nil at the end; a page may be shorter than the limit and
	// not be the last.
	Endpoints(
		f EndpointFilter, after *Position, limit int,
	) (page []domain.Endpoint, next *Position, err error)
	// Watches lists watches of an account in the same way.
	Watches(f WatchFilter, after *Position, limit int) (page []domain.Watch, next *Position, err error)

	// The following return when this node has read that version of an object, or its
	// deletion, or the context's error.
	AwaitEndpoint(ctx context.Context, id string, version uint64) error
	AwaitEndpointGone(ctx context.Context, id string) error
	AwaitWatch(ctx context.Context, id string, version uint64) error
	AwaitWatchGone(ctx context.Context, id string) error
	AwaitAccount(ctx context.Context, id string, version uint64) error
}

// EndpointFilter selects endpoints; AccountID is always set, other fields do not filter if
// they are empty.
type EndpointFilter struct {
	AccountID string
	Status    domain.EndpointStatus
}

// WatchFilter selects watches; AccountID is always set, other fields do not filter if they
// are empty.
type WatchFilter struct {
	AccountID     string
	EndpointID    string
	WalletAddress string
}

// EventFilter selects events; AccountID is always set, other fields do not filter if they
// are empty.
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

// Position is a position in a list: the object that was returned last.
type Position struct {
	CreatedAtMillis int64
	ID              string
}

// KeyUses records when keys were last used.
type KeyUses interface {
	// Used records a use. It does not block, and may lose it.
	Used(keyID string, atMillis int64)
	// Forget deletes the record of a revoked key.
	Forget(keyID string)
}

// HistoryMissing is an ErrHistoryUnavailable with a reason, in words for clients.
type HistoryMissing struct{ Why string }

func (e HistoryMissing) Error() string {
	return ErrHistoryUnavailable.Error() + ": " + e.Why
}

func (e HistoryMissing) Unwrap() error { return ErrHistoryUnavailable }

// ChooseMax is how many events a filter selects at most, for what is done with them.
const ChooseMax = 10_000

// History is the view of events and attempts.
type History interface {
	// Event returns an event of an account, waiting for a bounded time if the history is
	// not up to date. An event from a history that is being refilled is marked as Behind.
	// Its errors are ErrEventNotFound, ErrHistoryBehind and ErrHistoryUnavailable.
	Event(ctx context.Context, accountID, eventID string) (EventRecord, error)
	// Recall is Event for an event that is to be sent again. It returns no event that is
	// Behind, and ErrEventExpired for one that cannot be sent.
	Recall(ctx context.Context, accountID, eventID string) (RecalledEvent, error)
	// Events lists events of an account, newest first and without their attempts, from
	// after a position on, at most limit of them. next is nil at the end; a page may be
	// shorter than the limit and not be the last. Its errors are ErrHistoryBehind, while
	// the history is being refilled, and ErrHistoryUnavailable.
	Events(
		ctx context.Context, f EventFilter, after *Position, limit int,
	) (page []EventRecord, next *Position, err error)
	// Choose returns which events a filter selects, newest first, from after a position on, at
	// most limit of them (to ChooseMax). next is nil at the end; it may end before the limit and
	// go on. Its errors are those of Events.
	Choose(
		ctx context.Context, f EventFilter, after *Position, limit int,
	) (chosen []Position, next *Position, err error)
	// Numbered returns the events of an endpoint whose numbers are above one, in their order,
	// of limit numbers at most. No number is left out that is still to come. Its errors are
	// those of Events.
	Numbered(
		ctx context.Context, accountID, endpointID string, after uint64, limit int,
	) (NumberedPage, error)
	// NumberBefore returns the number after which an endpoint's events begin that were created
	// at a time (Unix milliseconds) or later; if there is none, the last number. Its errors are
	// those of Events.
	NumberBefore(
		ctx context.Context, accountID, endpointID string, sinceMillis int64,
	) (uint64, error)
	// LogSize returns how many leaves a log of an endpoint's attempts has (domain.AttemptLog), at
	// least those of attempts that were read before the call; 0: there is none. Its errors are
	// those of Events.
	LogSize(ctx context.Context, endpointID string, from uint64) (uint64, error)
	// LogHashes returns what leaves added to a log (domain.LogEntry.Hashes), by their numbers;
	// those that the history lacks are left out. Its errors are those of Events.
	LogHashes(
		ctx context.Context, endpointID string, from uint64, leaves []uint64,
	) (map[uint64][]byte, error)
	// AwaitMore returns when there may be more events of an endpoint than there were at a
	// page's AsOf, or an error of Events, or the context's.
	AwaitMore(ctx context.Context, endpointID string, asOf int64) error

	// Rates counts the attempts of an account that a filter selects. Its errors are those of Events.
	Rates(ctx context.Context, f RatesFilter) (Rates, error)
	// Health returns how endpoints of an account do, by their ids; an endpoint that was never sent
	// anything may be left out. Its errors are those of Events.
	Health(ctx context.Context, f HealthFilter) (map[string]domain.EndpointHealth, error)

	// Statement reads a page of a wallet's balance moves, oldest first, from after a position on
	// (zero: the beginning), at most limit of them. It waits for a bounded time for what the follower
	// recorded before the call. Its errors are ErrManyBalances, ErrHistoryBehind and
	// ErrHistoryUnavailable.
	Statement(
		ctx context.Context, f StatementFilter, after StatementPosition, limit int,
	) (Statement, error)
	// EndpointSteps returns facts of an endpoint itself, newest first, with the state before and
	// after each, as domain.Fact.Kept has them; of a deleted one too. Its errors are
	// ErrEventNotFound, ErrFactsMissing, ErrManyFacts, ErrHistoryBehind and ErrHistoryUnavailable.
	EndpointSteps(ctx context.Context, f StepFilter) (StepPage[domain.Endpoint], error)
	// WatchSteps is EndpointSteps for a watch.
	WatchSteps(ctx context.Context, f StepFilter) (StepPage[domain.Watch], error)
	// EventSteps is EndpointSteps for the deliveries of an event, with what its endpoints did to
	// them; their errors name no account but the caller's.
	EventSteps(ctx context.Context, f StepFilter) (StepPage[domain.TrackedDelivery], error)
	// AwaitWrites returns when the history holds everything that was acknowledged before
	// the call, or ErrHistoryBehind or ErrHistoryUnavailable after a bounded time.
	AwaitWrites(ctx context.Context) error
}

// StepFilter selects facts of an account's endpoint, watch or event.
type StepFilter struct {
	AccountID string
	ID        string
	Before    uint64 // only facts of lower versions; 0: all
	BeforeAt  string // endpoint whose version Before is; of an event's facts only
	Limit     int
}

// StepPage are facts with their states, newest first.
type StepPage[S any] struct {
	Steps []domain.Step[S]
	More  bool // there are earlier ones
}

// RatesFilter selects attempts of an account, sent from one time to before another.
type RatesFilter struct {
	AccountID            string
	EndpointID           string // empty: all of the account
	FromMillis, ToMillis int64
}

// HealthFilter selects endpoints of an account.
type HealthFilter struct {
	AccountID   string
	EndpointIDs []string // empty: all that the account has or had
	NowMillis   int64
	CountsOnly  bool // neither the last attempts nor the oldest pending are asked for
}

// Rates are attempts counted by the minute in which they were sent.
type Rates struct {
	Minutes                   []RatesMinute // in order, those with attempts
	MedianMillis, P99Millis   float64       // of all attempts; 0 without any
	Delivered, Refused, Unmet uint64        // of all
}

// RatesMinute is one minute: attempts that delivered, that were answered otherwise, and that got
// no complete answer.
type RatesMinute struct {
	AtMillis                  int64
	Delivered, Refused, Unmet uint64
}

// NumberedPage are events of an endpoint that follow a number.
type NumberedPage struct {
	Events  []NumberedEvent // in the order of their numbers
	Missing []Numbers       // before and between them: of events that are no longer kept
	AsOf    int64           // how far the history was read, for AwaitMore
}

// NumberedEvent is an event as its endpoint gets it.
type NumberedEvent struct {
	ID       string
	Sequence uint64
	Body     []byte // the envelope, byte for byte as receivers get it
}

// Numbers are the numbers from one to another, both included.
type Numbers struct{ From, To uint64 }

// StatementFilter selects balance moves of a wallet.
type StatementFilter struct {
	AccountID string // whose events are named
	Wallet    string
	Balance   string // domain.BalanceMove.BalanceName; empty: all

	// RecordSince is the first ledger that is looked at; from it on, a move before the statement
	// tells where a balance stood.
	RecordSince uint32
	FirstLedger uint32 // of the statement
	LastLedger  uint32 // of the statement, included
	FromMillis  int64  // closed at or after; 0: no bound
	ToMillis    int64  // closed before; 0: no bound
	// OpenMillis is when LastLedger closed, where the statement ends there only because no later one
	// counts yet; 0: it has an end of its own.
	OpenMillis int64
	OpenUntil  uint32 // the last ledger that was asked for beyond LastLedger, if OpenMillis; 0: any
}

// StatementPosition is the move that was returned last.
type StatementPosition struct {
	Ledger uint32
	Place  uint64
	MoveID string
}

// Statement is a page of moves; its balances are those of all pages.
type Statement struct {
	Balances        []BalanceRecord
	Moves           []MoveRecord
	Next            StatementPosition // zero at the end
	KeptSinceMillis int64             // earlier moves are not kept; 0: all are
	// Uncounted is the newest ledger beyond an open statement of which moves are recorded; 0: none.
	Uncounted uint32
}

// BalanceRecord is one balance over a statement.
type BalanceRecord struct {
	Balance            string
	Moves              uint64
	OpeningStroops     int64
	ClosingStroops     int64
	UnexplainedStroops int64 // of all gaps, each without its sign
}

// MoveRecord is a move with its payments. Balance names its asset or pool.
type MoveRecord struct {
	domain.BalanceMove
	Balance            string
	UnexplainedStroops int64 // how far before is from where the last move ended
	Payments           []PaidRecord
}

// PaidRecord is a payment with the account's events of it.
type PaidRecord struct {
	Payment domain.Payment
	Events  []PaidEvent
}

// PaidEvent is an event that tells of a payment.
type PaidEvent struct{ ID, WatchID string }

// Ledgers is how far ledgers were followed.
type Ledgers interface {
	// Followed returns what is true of a ledger that was read at most a second before the call,
	// or later. Its zero value: none was read yet.
	Followed(ctx context.Context) (Followed, error)
}

// Followed is what the follower's cursor says.
type Followed struct {
	NetworkPassphrase string
	Ledger            uint32 // the newest that was read
	Hash              string // its hash, 64 lowercase hex characters
	ClosedAtMillis    int64
	ReadAtMillis      int64
	Coverage          domain.Coverage // nil: a follower of an older release read it
	// From this ledger on balance moves were recorded, without a break; 0: they are not.
	MovesSince       uint32
	MovesSinceMillis int64 // when it closed
}

// EventRecord is an event with its present delivery. Whether the delivery is held is not
// part of it: that is the endpoint's state at the time of reading.
type EventRecord struct {
	ID                  string
	Body                []byte // the envelope, byte for byte as receivers get it
	EndpointID          string // its present endpoint
	Sequence            uint64 // number among that endpoint's deliveries; 0: none
	State               domain.DeliveryState
	NextAttemptAtMillis int64           // 0: none
	Attempts            []AttemptRecord // of all its deliveries, oldest first

	// Of lists only: how many attempts were made, and what the last one at the present endpoint met.
	AttemptsMade   int
	LastStatusCode int // 0: no status arrived
	LastError      domain.AttemptError

	Behind bool // the history is being refilled: this may be an earlier state
}

// RecalledEvent is an event with what the engine may have forgotten of it.
type RecalledEvent struct {
	EventRecord
	// Deliveries to its endpoints, the first first, but for what its body tells. Empty while
	// the history lacks one of those before the present one.
	Deliveries []domain.Delivery
	// AsOf returns the offset of the journal up to which the history was read, in the
	// partition of an endpoint.
	AsOf func(endpointID string) int64
}

// AttemptRecord is one attempt of a delivery.
type AttemptRecord struct {
	EndpointID string
	Number     int // counts over all runs; 1 is the first
	Run        int
	Result     domain.AttemptResult
	Entry      domain.LogEntry // without its hashes; its number is 0 for one that is in no log
}

// Sealer encrypts secrets before they leave the API. The associated data binds a secret to
// its endpoint: it is the endpoint's id.
type Sealer interface {
	Seal(plaintext []byte, associatedData string) ([]byte, error)
	Open(sealed []byte, associatedData string) ([]byte, error)
}

// SigningKeys are the keys with which the deployment signs for endpoints that ask for it.
type SigningKeys interface {
	// Published returns the public keys, with those that sign later, and those that what they
	// signed may still be verified with.
	Published() []PublicKey
	// Signs reports whether a key signs now.
	Signs() bool
	// Signers returns the private keys that sign at a time, newest first.
	Signers(nowMillis int64) ([]domain.Secret, error)
}

// PublicKey is an Ed25519 key.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// Wallets looks wallets up on the ledger network.
type Wallets interface {
	// Warnings returns why a wallet cannot receive some of the assets yet
	// (ACCOUNT_NOT_FOUND, NO_TRUSTLINE:<code>), or that it could not be looked up. It never
	// fails, and bounds its own time.
	Warnings(ctx context.Context, wallet string, assets []domain.Asset) []string
}

// URLPolicy decides which URLs may be sent to.
type URLPolicy interface {
	// Check returns the URL in its normal form. If there are faults, the URL is refused.
	Check(ctx context.Context, raw string) (normalised string, warnings []string, faults []URLFault)
}

// URLFault is one reason against a URL. The detail says how to fix it and contains no part
// of a URL's userinfo.
type URLFault struct {
	Code   string // such as SSRF_BLOCKED
	Detail string
}

// Check is one condition of readiness.
type Check struct {
	Name string
	Run  func(context.Context) error
	// Detail, if set, says more about a condition that holds.
	Detail func(context.Context) string
}
