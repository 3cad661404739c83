package api

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Errors that the parts behind the API return, wrapped or bare.
var (
	// ErrCommandUnanswered means that a command was submitted but no result arrived in time. The
	// command still takes effect, exactly once.
	ErrCommandUnanswered = errors.New("the command was not answered in time")
	// ErrWritesRefused means that a command was not submitted and never takes effect, because no
	// broker is reachable or the disk is full.
	ErrWritesRefused = errors.New("no command is taken now")
	// ErrDiskFull is an ErrWritesRefused whose reason the client may know.
	ErrDiskFull = fmt.Errorf("%w: the disk is full", ErrWritesRefused)
)

// Commands submits commands to the engine.
type Commands interface {
	// Submit returns the engine's answer after it is committed. It waits for a bounded time, well
	// under 15 s, and then returns ErrCommandUnanswered. It returns ErrWritesRefused only if the
	// command can never take effect. For a repeated command, the result has Replayed set, the first
	// answer and the first body's hash.
	Submit(context.Context, domain.Command) (domain.Result, error)
}

// Directory is the read model of accounts, endpoints and watches.
type Directory interface {
	// Fresh fails unless this node has confirmed within the last seconds that it has read the
	// topics to their ends. Until then no request is admitted, so that a revoked key is refused
	// everywhere.
	Fresh() error
	// Confirm returns when this node has read everything that was acknowledged before the call, or
	// returns an error.
	Confirm(ctx context.Context) error
	// KeyByHash finds an API key by its domain.APIKeyHash.
	KeyByHash(hash []byte) (key domain.Key, accountID string, found bool, err error)
	// KeyUsedAt returns when a key was last used, to the minute; 0 if never or unknown.
	KeyUsedAt(keyID string) (millis int64, err error)
	// Account returns an account with its keys.
	Account(id string) (domain.Account, bool, error)
	// Counts returns an account's usage, except its keys, and its quotas, as far as this node has
	// read.
	Counts(accountID string) (used, quotas domain.Counts, err error)
	// Endpoint returns an endpoint of any account. A deleted endpoint is not found, or has that
	// status.
	Endpoint(id string) (domain.Endpoint, bool, error)
	// Watch returns a watch of any account. A deleted watch is not found, or has that status.
	Watch(id string) (domain.Watch, bool, error)
	// Endpoints lists an account's endpoints, newest first, starting after a position, at most
	// limit of them. next is nil at the end. A page may be shorter than limit without being the
	// last.
	Endpoints(
		f readmodel.EndpointFilter, after *readmodel.Position, limit int,
	) (page []domain.Endpoint, next *readmodel.Position, err error)
	// Watches lists an account's watches in the same way.
	Watches(
		f readmodel.WatchFilter, after *readmodel.Position, limit int,
	) (page []domain.Watch, next *readmodel.Position, err error)
	// LeftWatches returns the number of watches that deleting an endpoint leaves without one, and
	// some of their ids.
	LeftWatches(accountID, endpointID string) (total int, ids []string, err error)

	// The following methods return when this node has read the version of an object or its
	// deletion, or return the context's error.
	AwaitEndpoint(ctx context.Context, id string, version uint64) error
	AwaitEndpointGone(ctx context.Context, id string) error
	AwaitWatch(ctx context.Context, id string, version uint64) error
	AwaitWatchGone(ctx context.Context, id string) error
	AwaitAccount(ctx context.Context, id string, version uint64) error
}

// KeyUses records when keys were last used.
type KeyUses interface {
	// Used records a use. It does not block, and may drop it.
	Used(keyID string, atMillis int64)
	// Forget deletes the record of a revoked key.
	Forget(keyID string)
}

// History is the read model of events and attempts. Unless documented otherwise, its methods return
// readmodel.ErrBehind while the history is being refilled, and readmodel.ErrUnavailable.
type History interface {
	// Event returns an account's event. If the history is not up to date, it waits for a bounded
	// time. An event from a history that is being refilled is marked as Behind. Event also returns
	// readmodel.ErrNotFound.
	Event(ctx context.Context, accountID, eventID string) (readmodel.Event, error)
	// Recall is like Event, for resending. It returns no event that is Behind, and
	// readmodel.ErrExpired for an event that cannot be sent anymore.
	Recall(ctx context.Context, accountID, eventID string) (readmodel.Recalled, error)
	// Events lists an account's events, newest first, without their attempts.
	Events(
		ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
	) (page []readmodel.Event, next *readmodel.Position, err error)
	// Choose returns the events that match a filter, newest first. It returns at most limit events,
	// up to readmodel.ChooseMax.
	Choose(
		ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
	) (chosen []readmodel.Position, next *readmodel.Position, err error)
	// Numbered returns the events of an endpoint with numbers above after, in order. It covers at
	// most limit numbers, and skips no number that is still to come.
	Numbered(
		ctx context.Context, accountID, endpointID string, after uint64, limit int,
	) (readmodel.NumberedPage, error)
	// NumberBefore returns the number before the first of an endpoint's events created at or after
	// a time (Unix milliseconds), or the last number if there are no such events.
	NumberBefore(
		ctx context.Context, accountID, endpointID string, sinceMillis int64,
	) (uint64, error)
	// LogSize returns the number of leaves in a log of an endpoint's attempts (domain.AttemptLog).
	// It includes at least the attempts that were read before the call. 0 means no log.
	LogSize(ctx context.Context, endpointID string, from uint64) (uint64, error)
	// LogHashes returns the hashes that leaves added to a log (domain.LogEntry.Hashes), by leaf
	// number. It omits leaves that the history lacks.
	LogHashes(
		ctx context.Context, endpointID string, from uint64, leaves []uint64,
	) (map[uint64][]byte, error)
	// AwaitMore returns when an endpoint may have more events than at a page's AsOf.
	AwaitMore(ctx context.Context, endpointID string, asOf int64) error

	// Rates counts the attempts of an account that match a filter.
	Rates(ctx context.Context, f readmodel.RatesFilter) (readmodel.Rates, error)
	// Health returns the health of an account's endpoints, by id. It may omit endpoints that were
	// never sent anything.
	Health(
		ctx context.Context, f readmodel.HealthFilter,
	) (map[string]domain.EndpointHealth, error)

	// Statement returns a page of a wallet's balance moves, oldest first, starting after a position
	// (zero: from the beginning), at most limit of them. It waits for a bounded time for moves that
	// the follower recorded before the call. It also returns readmodel.ErrManyBalances.
	Statement(
		ctx context.Context, f readmodel.StatementFilter, after readmodel.StatementPosition, limit int,
	) (readmodel.Statement, error)
	// Payments returns a transaction's payments to any watched wallets, with the account's events
	// for each. It waits for a bounded time for payments that the follower recorded before the
	// call.
	Payments(ctx context.Context, accountID, txHash string) ([]readmodel.Paid, error)
	// EndpointSteps returns an endpoint's own facts, newest first, with the state before and after
	// each (domain.Fact.Kept). It also works for deleted endpoints. It also returns
	// readmodel.ErrNotFound, ErrFactsMissing and ErrManyFacts.
	EndpointSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.Endpoint], error)
	// WatchSteps is like EndpointSteps, for a watch.
	WatchSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.Watch], error)
	// EventSteps is like EndpointSteps, for an event's deliveries. It includes the endpoint changes
	// that affected them. Its errors name no account except the caller's.
	EventSteps(
		ctx context.Context, f readmodel.StepFilter,
	) (readmodel.StepPage[domain.TrackedDelivery], error)
	// CatchUp returns when the history contains everything that was acknowledged before the call,
	// or returns an error after a bounded time.
	CatchUp(ctx context.Context) error
}

// Ledgers is the progress of following ledgers.
type Ledgers interface {
	// Followed returns the state at most a second before the call, or later. The zero value means
	// that no ledger has been read yet.
	Followed(ctx context.Context) (Followed, error)
}

// Followed is the content of the follower's cursor.
type Followed struct {
	NetworkPassphrase string
	Ledger            uint32 // the latest ledger read
	Hash              string // its hash, 64 lowercase hex characters
	ClosedAtMillis    int64
	ReadAtMillis      int64
	Coverage          domain.Coverage
	// Balance moves are recorded without a gap since this ledger. 0: not recorded.
	MovesSince       uint32
	MovesSinceMillis int64 // when that ledger closed
}

// Sealer encrypts secrets before they leave the API. The associated data is the endpoint's id, and
// binds the secret to its endpoint.
type Sealer interface {
	Seal(plaintext []byte, associatedData string) ([]byte, error)
	Open(sealed []byte, associatedData string) ([]byte, error)
}

// SigningKeys are the deployment's Ed25519 keys, which sign receipts, and those of its endpoints,
// which sign their deliveries.
type SigningKeys interface {
	// Published returns the deployment's public keys, including future keys and old keys that still
	// verify earlier signatures.
	Published() []PublicKey
	// EndpointPublished returns the same for an endpoint's key, by name (domain.Endpoint).
	EndpointPublished(name string) ([]PublicKey, error)
	// Signs reports whether a key signs now.
	Signs() bool
	// Signers returns the deployment's private keys that sign at a time, newest first.
	Signers(nowMillis int64) ([]domain.Secret, error)
	// EndpointSigners returns the same for an endpoint's key, by name.
	EndpointSigners(name string, nowMillis int64) ([]domain.Secret, error)
}

// PublicKey is a public Ed25519 key.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// Wallets looks up wallets on the Stellar network.
type Wallets interface {
	// Warnings returns why a wallet cannot receive some of the assets yet (ACCOUNT_NOT_FOUND,
	// NO_TRUSTLINE:<code>), or that it could not be looked up. It never fails and bounds its own
	// time.
	Warnings(ctx context.Context, wallet string, assets []domain.Asset) []string
}

// Transactions finds transactions on the Stellar network.
type Transactions interface {
	// Transaction returns a transaction by its hash, or domain.ErrNoTransaction. It bounds its own
	// time.
	Transaction(ctx context.Context, hash string) (domain.Transaction, error)
}

// URLPolicy decides which URLs endpoints may have.
type URLPolicy interface {
	// Check returns the normalized URL. If there are faults, the URL is refused.
	Check(ctx context.Context, raw string) (normalised string, warnings []string, faults []URLFault)
}

// URLFault is one reason against a URL. Detail says how to fix it, and contains no part of the
// URL's userinfo.
type URLFault struct {
	Code   string // such as SSRF_BLOCKED
	Detail string
}

// Check is one condition of readiness.
type Check struct {
	Name string
	Run  func(context.Context) error
	// Detail, if set, describes a condition that holds.
	Detail func(context.Context) string
}
