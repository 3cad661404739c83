package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const group = "follower"

// partition is the only partition of topic "ledgers".
const partition = 0

const leaveTimeout = 10 * time.Second

// Source provides closed ledgers. It is used by one goroutine at a time.
type Source interface {
	// Check checks once whether the source serves the network, and returns a domain.ErrWrongNetwork if
	// it serves another.
	Check(ctx context.Context) error
	// Latest returns the sequence of the newest ledger, without retrying.
	Latest(ctx context.Context) (uint32, error)
	// Continue sets the last ledger that was read, whose hash the next one must name. An empty hash
	// allows any.
	Continue(sequence uint32, hash string)
	// Next waits for a ledger and returns it, and available ones after it. The caller owns the page.
	// It fails only if waiting does not help, with a domain.LedgerError.
	Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error)
}

// Watches is the follower's view of the watches.
type Watches interface {
	// CatchUp waits until all watches that were appended before the call are known, and returns the
	// next offset of each partition.
	CatchUp(ctx context.Context) (offsets map[int32]int64, err error)
	ByWallet(wallet string) ([]domain.Watch, error)
	// EachUnadmitted calls take for watches whose first live ledger is not recorded, until it fails.
	EachUnadmitted(take func(domain.Watch) error) error
	Endpoint(id string) (e domain.Endpoint, found bool, err error)
}

// LedgerSummary describes a ledger. Observed and Matches are in ledger order.
type LedgerSummary struct {
	Ledger   domain.Ledger
	Observed []domain.Payment
	Matches  []domain.Match
}

// Config configures a follower. Start may be zero ("latest"). Trusted, Probe, CloseInterval,
// Allowed, OnMatched, OnLedger, OnRestart and Backfill are optional.
type Config struct {
	Cluster    kafka.Cluster
	Source     Source
	Watches    Watches
	Claims     Claims
	OpenParts  OpenParts
	Passphrase string
	Start      Start   // where to begin if there is no cursor
	Trusted    Trusted // checked against the followed ledgers if it is not after the cursor
	Backfill   BackfillConfig
	// Probe, if set, is another Source of the same ledgers, for use when Source returns none.
	Probe Source
	// CloseInterval is how often the network closes a ledger, if it is slow.
	CloseInterval time.Duration
	// Allowed, if set, decides whether a term that has taken over may continue: the topics may have
	// been replaced while the process was paused.
	Allowed func(context.Context) error
	// OnMatched is called when a ledger's payments and matches are acknowledged, whenever it is read.
	// The engine may process them from then on.
	OnMatched func(LedgerSummary)
	OnLedger  func(LedgerSummary) // called when the cursor is acknowledged as well
	OnRestart func()              // called after each failure that interrupts following
	Now       func() time.Time
	Logger    *slog.Logger
}

// Follower is one follower process. It is active while it is elected.
type Follower struct {
	config      Config
	reading     *Reading
	past        Log // for backfills
	membership  atomic.Pointer[kafka.Membership]
	ready       chan struct{}
	becomeReady sync.Once
	positioned  atomic.Bool // it is certain which ledgers are skipped, if any
	health      health
	attempt     atomic.Pointer[context.CancelFunc] // cancels the current attempt to follow

	mu   sync.Mutex
	term *term
}

type term struct {
	end   context.CancelFunc
	ended chan struct{}
}

// New returns a follower. Call Run to start it.
func New(config Config) *Follower {
	f := &Follower{config: config, ready: make(chan struct{})}
	f.config.OnLedger = func(s LedgerSummary) {
		f.ledgerRead(s.Ledger.Sequence)
		if config.OnLedger != nil {
			config.OnLedger(s)
		}
	}
	return f
}

// Ready is closed once this follower was elected and knows its position: it sees payments in
// ledgers that close after that.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Run takes part in the election and follows while elected, until ctx is done, which is not an
// error. It retries all errors of sources, which Check reports. It may be called again after it has
// returned.
func (f *Follower) Run(ctx context.Context) error {
	if err := f.awaitNetwork(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	log, err := openLog(f.config.Cluster, liveProducer)
	if err != nil {
		return err
	}
	defer log.close()
	past, err := openLog(f.config.Cluster, pastProducer)
	if err != nil {
		return err
	}
	defer past.close()
	log.allowed, past.allowed = f.config.Allowed, f.config.Allowed
	f.reading, f.past = NewReading(f.config, log, f.isElected), past
	f.reading.started = func() { f.becomeReady.Do(func() { close(f.ready) }) }
	f.reading.positioned = func() { f.positioned.Store(true) }
	membership, err := f.config.Cluster.Join(kafka.MembershipConfig{
		Group:    group,
		Topic:    schemas.TopicLedgers,
		Now:      f.config.Now,
		Assigned: func([]int32) { f.begin(ctx) },
		Revoked:  func([]int32) { f.end() },
		Lost:     func([]int32) { f.end() },
	})
	if err != nil {
		return err
	}
	f.membership.Store(membership)
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err = membership.Leave(leaving)
	f.end()
	return err
}

// awaitNetwork waits until the source serves the configured network. Until then the follower stays
// out of the election, because another one may reach its source.
func (f *Follower) awaitNetwork(ctx context.Context) error {
	policy := f.config.retryPolicy("the source of ledgers cannot be used yet; waiting for it")
	return retry.Do(ctx, policy, func() error {
		err := f.config.Source.Check(ctx)
		f.health.interrupted(err)
		return err
	})
}

func (c Config) retryPolicy(message string) retry.Policy {
	return retry.Policy{
		First:     100 * time.Millisecond,
		Last:      10 * time.Second,
		OnFailure: retry.Warn(c.Logger, message),
	}
}

func (f *Follower) begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	t := &term{end: cancel, ended: make(chan struct{})}
	f.term = t
	f.reading.at.Store(0)
	f.reading.done.Store(0)
	f.health.begin(f.config.Now())
	go func() {
		defer close(t.ended)
		var beside sync.WaitGroup
		beside.Go(func() { f.reading.keepBackfilling(ctx, f.past) })
		beside.Go(func() { f.keepCommitting(ctx) })
		beside.Go(func() { f.keepWatch(ctx) })
		f.keepFollowing(ctx)
		beside.Wait()
	}()
}

func (f *Follower) end() {
	f.mu.Lock()
	t := f.term
	f.term = nil
	f.mu.Unlock()
	if t != nil {
		t.end()
		<-t.ended
	}
}

// keepFollowing follows until the term ends. After each failure it starts again at the cursor: only
// the log knows what was committed, and a source that returned a wrong ledger may correct itself.
func (f *Follower) keepFollowing(ctx context.Context) {
	policy := f.config.retryPolicy(
		"following the ledger was interrupted; restarting at the cursor")
	warn := policy.OnFailure
	policy.OnFailure = func(failure retry.Failure) {
		if !errors.Is(failure.Err, errNotElected) && !errors.Is(failure.Err, context.Canceled) {
			f.health.interrupted(failure.Err)
			warn(failure)
			if f.config.OnRestart != nil {
				f.config.OnRestart()
			}
		}
	}
	_ = retry.Forever(ctx, policy, func() (advanced bool, err error) { // no error is permanent
		attempt, end := context.WithCancel(ctx)
		defer end()
		f.attempt.Store(&end)
		return f.reading.Follow(attempt)
	})
}

func (f *Follower) interrupt() {
	if end := f.attempt.Load(); end != nil {
		(*end)()
	}
}

// errNotElected means that the group has not recently confirmed that this follower is elected.
var errNotElected = errors.New("the group has not confirmed that this follower is elected")

var errNoNetwork = errors.New("the source of ledgers cannot be used yet; retrying")

var errNoPosition = errors.New("the first reported ledger is not known yet")

// Check returns an error while the source has not answered since the start, or the group does not
// confirm this follower's membership. For the active follower it also returns an error while it has
// no cursor or reads no ledgers (see health). The first follower of a deployment skips the ledgers
// before its cursor, so if it were ready earlier, it could miss a payment to a watch that was just
// acknowledged.
func (f *Follower) Check() error {
	m := f.membership.Load()
	if m == nil {
		if why := f.health.trouble(); why != nil {
			return fmt.Errorf("%w: %w", errNoNetwork, why)
		}
		return errNoNetwork
	}
	if err := m.Check(); err != nil || !f.inTerm() {
		return err
	}
	if err := f.health.check(f.config.Now(), f.stalledAfter()); err != nil {
		return err
	}
	if !f.positioned.Load() {
		return errNoPosition
	}
	return nil
}

// Follows reports whether this follower is active and the group has recently confirmed it.
func (f *Follower) Follows() bool {
	return f.inTerm() && f.isElected()
}

// inTerm reports whether this follower was elected, and has not learned that it no longer is.
func (f *Follower) inTerm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.term != nil
}

func (f *Follower) isElected() bool {
	m := f.membership.Load()
	return m != nil && m.Fresh()
}
