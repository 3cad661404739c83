package mailer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Group is the consumer group in which mailers divide the orders.
const Group = "mailer"

const (
	leaveMax = 15 * time.Second
	drainMax = 10 * time.Second // for a mail that is being sent when its partition is given up
	// atOnce bounds the mails that are being sent, and inProgress the orders that were taken but not
	// passed by the group's position.
	atOnce      = 8
	inProgress  = 256
	keptAnswers = 4096
)

// Directory is the mailer's view of accounts.
type Directory interface {
	Account(id string) (domain.Account, bool, error)
	// Confirm waits until the rows are no older than the call.
	Confirm(ctx context.Context) error
}

// Sender sends mails. It returns nil once a server has accepted the mail, a *Refusal if the server
// refused this mail, and another error if it would have refused any mail. It must be safe for
// concurrent use.
type Sender interface {
	Send(ctx context.Context, m Mail) error
}

// Refusal means that a Sender refuses one mail.
type Refusal struct {
	Temporary bool // it may be accepted later
	Err       error
}

func (r *Refusal) Error() string { return "the mail was refused: " + r.Err.Error() }

func (r *Refusal) Unwrap() error { return r.Err }

// Config configures a mailer.
type Config struct {
	Cluster   kafka.Cluster
	Directory Directory
	Sender    Sender
	// DisableAfter is how many failed events in a row disable an endpoint. If 0, the mail omits it.
	DisableAfter int
	// RunTime is the longest time that all attempts of an event take. The mail suggests a replay that
	// starts that long before the endpoint was disabled.
	RunTime time.Duration
	// OnDeadLetter, if set, is called with the topic of each order that was set aside.
	OnDeadLetter func(topic string)
	Now          func() time.Time
	Logger       *slog.Logger
}

// Mailer is one mailer of a deployment.
type Mailer struct {
	cfg        Config
	membership atomic.Pointer[kafka.Membership]
	producer   *kafka.Producer
	answered   *lru.Cache[string, reply] // to completed orders
	sending    chan struct{}             // one element per mail that is being sent
	failure    atomic.Pointer[failure]   // of the latest round; nil if it did not fail

	mu    sync.Mutex
	owned map[int32]bool
	round *round // nil between two rounds
}

// failure is why a round failed. If an order caused it, it lasts until an order succeeds.
type failure struct {
	error
	ofOrder bool
}

// New returns a mailer. Call Run to start it.
func New(cfg Config) *Mailer {
	answered, err := lru.New[string, reply](keptAnswers)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Mailer{
		cfg:      cfg,
		answered: answered,
		sending:  make(chan struct{}, atOnce),
		owned:    make(map[int32]bool),
	}
}

// Run carries out orders until ctx is done, which is not an error. A mail that is being sent then
// has 10 s left. Run may be called again after it has returned.
func (m *Mailer) Run(ctx context.Context) (err error) {
	if m.producer, err = m.cfg.Cluster.NewProducer(); err != nil {
		return err
	}
	defer m.producer.Close()
	membership, err := m.cfg.Cluster.Join(kafka.MembershipConfig{
		Group:     Group,
		Topic:     schemas.TopicMails,
		Now:       m.cfg.Now,
		Assigned:  m.assigned,
		Revoked:   func(partitions []int32) { m.releasePartitions(partitions).wait() },
		Lost:      func(partitions []int32) { m.releasePartitions(partitions) },
		RevokeMax: drainMax + commitMax,
	})
	if err != nil {
		return err
	}
	m.membership.Store(membership)
	policy := retry.Policy{
		First:     100 * time.Millisecond,
		Last:      10 * time.Second,
		OnFailure: retry.Warn(m.cfg.Logger, "the mailer failed; restarting at its committed positions"),
	}
	failed := retry.Forever(ctx, policy, func() (moved bool, err error) { return m.work(ctx) })
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
	defer cancel()
	if err := membership.Leave(leaving); err != nil {
		m.cfg.Logger.Warn("the mailer could not leave its group; its partitions move after the "+
			"session timeout", "error", err)
	}
	return failed
}

func (m *Mailer) assigned(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		m.owned[p] = true
	}
	m.round.stop()
}

// releasePartitions ends and returns the round, so that the next one excludes these partitions.
func (m *Mailer) releasePartitions(partitions []int32) *round {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		delete(m.owned, p)
	}
	m.round.stop()
	return m.round
}

func (m *Mailer) begin(ctx context.Context) *round {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round = newRound(ctx, m)
	for p := range m.owned {
		m.round.queues[p] = &queue{}
	}
	return m.round
}

var errNotJoined = errors.New("the mailer has not joined its group yet")

// Check returns an error while the group does not confirm this mailer's membership, or orders
// cannot be read or answered.
func (m *Mailer) Check() error {
	membership := m.membership.Load()
	if membership == nil {
		return errNotJoined
	}
	if err := membership.Check(); err != nil {
		return err
	}
	if f := m.failure.Load(); f != nil {
		return f.error
	}
	return nil
}
