package api

import (
	"context"
	"crypto/ed25519"
	"errors"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Errors that the parts behind the API may return, wrapped or bare.
var (
	// ErrCommandUnanswered means that a command was submitted and no result arrived in
	// time. The command still takes effect, exactly once.
	ErrCommandUnanswered = errors.New("the command was not answered in time")
	// ErrWritesRefused means that a command was not submitted and never takes effect: no
	// broker can be reached, or the disk is full.
	ErrWritesRefused = errors.New("no command is taken now")
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
	// Confirm returns when this node has read everything that was acknowledged before the
	// call, or an error.
	Confirm(ctx context.Context) error
	// KeyByHash finds an API key by its domain.APIKeyHash.
	KeyByHash(hash []byte) (key domain.Key, accountID string, found bool, err error)
	// KeyUsedAt returns when a key was last used, to the minute; 0: never, or unknown.
	KeyUsedAt(keyID string) (millis int64, err error)
	// Account returns an account with its keys.
	Account(id string) (domain.Account, bool, error)
	// Counts returns what an account has, besides its keys, and what it may have, as far as this
	// node has read.
	Counts(accountID string) (used, quotas domain.Counts, err error)
	// Endpoint returns an endpoint of any account. A deleted one is not found, or has that
	// status.
	Endpoint(id string) (domain.Endpoint, bool, error)
	// Watch returns a watch of any account. A deleted one is not found, or has that status.
	Watch(id string) (domain.Watch, bool, error)
	// Endpoints lists endpoints of an account, newest first, from after a position on, at
	// most limit of them. next is nil at the end; a page may be shorter than the limit and
	// not be the last.
	Endpoints(
		f readmodel.EndpointFilter, after *readmodel.Position, limit int,
	) (page []domain.Endpoint, next *readmodel.Position, err error)
	// Watches lists watches of an account in the same way.
	Watches(
		f readmodel.WatchFilter, after *readmodel.Position, limit int,
	) (page []domain.Watch, next *readmodel.Position, err error)
	// LeftWatches returns which watches an endpoint leaves when it is deleted: how many, and the ids
	// of some of them.
	LeftWatches(accountID, endpointID string) (total int, ids []string, err error)

	// The following return when this node has read that version of an object, or its
	// deletion, or the context's error.
	AwaitEndpoint(ctx context.Context, id string, version uint64) error
	AwaitEndpointGone(ctx context.Context, id string) error
	AwaitWatch(ctx context.Context, id string, version uint64) error
	AwaitWatchGone(ctx context.Context, id string) error
	AwaitAccount(ctx context.Context, id string, version uint64) error
}

// KeyUses records when keys were last used.
type KeyUses interface {
	// Used records a use. It does not block, and may lose it.
	Used(keyID string, atMillis int64)
	// Forget deletes the record of a revoked key.
	Forget(keyID string)
}

// History is the read model of events and attempts. Where a method names no other errors, they
// are readmodel.ErrBehind, while the history is being refilled, and readmodel.ErrUnavailable.
type History interface {
	// Event returns an event of an account, waiting for a bounded time if the history is
	// not up to date. An event from a history that is being refilled is marked as Behind.
	// It also returns readmodel.ErrNotFound.
	Event(ctx context.Context, accountID, eventID string) (readmodel.Event, error)
	// Recall is Event for an event that is to be sent again. It returns no event that is
	// Behind, and readmodel.ErrExpired for one that cannot be sent.
	Recall(ctx context.Context, accountID, eventID string) (readmodel.Recalled, error)
	// Events lists events of an account, newest first and without their attempts.
	Events(
		ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
	) (page []readmodel.Event, next *readmodel.Position, err error)
	// Choose returns which events a filter selects, newest first, at most limit of them, to
	// readmodel.ChooseMax.
	Choose(
		ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
	) (chosen []readmodel.Position, next *readmodel.Position, err error)
	// Numbered returns the events of an endpoint whose numbers are above one, in their order,
	// of limit numbers at most. No number that is still to come is left out.
	Numbered(
		ctx context.Context, accountID, endpointID string, after uint64, limit int,
	) (readmodel.NumberedPage, error)
	// NumberBefore returns the number after which an endpoint's events begin that were created at a
	// time (Unix milliseconds) or later, or the last number if there are no such events.
	NumberBefore(
		ctx context.Context, accountID, endpointID string, sinceMillis int64,
	) (uint64, error)
	// LogSize returns the number of leaves in a log of an endpoint's attempts (domain.AttemptLog),
	// at least those of attempts that were read before the call; 0: no log.
	LogSize(ctx context.Context, endpointID string, from uint64) (uint64, error)
	// LogHashes returns what leaves added to a log (domain.LogEntry.Hashes), by their numbers;
	// those that the history lacks are left out.
	LogHashes(
		ctx context.Context, endpointID string, from uint64, leaves []uint64,
	) (map[uint64][]byte, error)
	// AwaitMore returns when there may be more events of an endpoint than there were at a
	// page's AsOf.
	AwaitMore(ctx context.Context, endpointID string, asOf int64) error

	// Rates counts the attempts of an account that a filter selects.
	Rates(ctx context.Context, f readmodel.RatesFilter) (readmodel.Rates, error)
	// Health returns the health of an account's endpoints, by their ids; an endpoint that was
	// never sent anything may be left out.
	Health(
		ctx context.Context, f readmodel.HealthFilter,
	) (map[string]domain.EndpointHealth, error)

	// Statement reads a page of a wallet's balance moves, oldest first, from after a position on
	// (zero: the beginning), at most limit of them. It waits for a bounded time for what the
	// follower recorded before the call. It also returns readmodel.ErrManyBalances.
	Statement(
		ctx context.Context, f readmodel.StatementFilter, after readmodel.StatementPosition, limit int,
	) (readmodel.Statement, error)
	// Payments returns the payments of a transaction to any watched wallets, with the account's events
	// for each. It waits for a bounded time for what the follower recorded before the call.
	Payments(ctx context.Context, accountID, txHash string) ([]readmodel.Paid, error)
	// EndpointSteps returns facts of an endpoint itself, newest first, with the state before and
	// after each, as domain.Fact.Kept has them; of a deleted one too. It also returns
	// readmodel.ErrNotFound, ErrFactsMissing and ErrManyFacts.
	EndpointSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.Endpoint], error)
	// WatchSteps is EndpointSteps for a watch.
	WatchSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.Watch], error)
	// EventSteps is EndpointSteps for the deliveries of an event, with what its endpoints did to
	// them; their errors name no account but the caller's.
	EventSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.TrackedDelivery], error)
	// CatchUp returns when the history holds everything that was acknowledged before the call, or
	// an error after a bounded time.
	CatchUp(ctx context.Context) error
}

// Ledgers is how far ledgers were followed.
type Ledgers interface {
	// Followed returns what is true of a ledger that was read at most a second before the call,
	// or later. Its zero value: none was read yet.
	Followed(ctx context.Context) (Followed, error)
}

// Followed is the content of the follower's cursor.
type Followed struct {
	NetworkPassphrase string
	Ledger            uint32 // the newest that was read
	Hash              string // its hash, 64 lowercase hex characters
	ClosedAtMillis    int64
	ReadAtMillis      int64
	Coverage          domain.Coverage
	// From this ledger on balance moves were recorded, without a break; 0: they are not.
	MovesSince       uint32
	MovesSinceMillis int64 // when it closed
}

// Sealer encrypts secrets before they leave the API. The associated data binds a secret to
// its endpoint: it is the endpoint's id.
type Sealer interface {
	Seal(plaintext []byte, associatedData string) ([]byte, error)
	Open(sealed []byte, associatedData string) ([]byte, error)
}

// SigningKeys are the deployment's Ed25519 keys, which sign receipts, and those of its endpoints,
// which sign what each endpoint gets.
type SigningKeys interface {
	// Published returns the deployment's public keys, with those that sign later, and those that
	// verify what they signed earlier.
	Published() []PublicKey
	// EndpointPublished returns the same for a name of an endpoint's key (domain.Endpoint).
	EndpointPublished(name string) ([]PublicKey, error)
	// Signs reports whether a key signs now.
	Signs() bool
	// Signers returns the deployment's private keys that sign at a time, newest first.
	Signers(nowMillis int64) ([]domain.Secret, error)
	// EndpointSigners returns the same for a name of an endpoint's key.
	EndpointSigners(name string, nowMillis int64) ([]domain.Secret, error)
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

// Transactions finds transactions on the ledger network.
type Transactions interface {
	// Transaction returns a transaction by its hash, or domain.ErrNoTransaction. It bounds its
	// own time.
	Transaction(ctx context.Context, hash string) (domain.Transaction, error)
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
