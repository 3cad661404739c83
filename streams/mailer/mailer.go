package mailer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// Group is the consumer group in which mailers divide the journal.
const Group = "mailer"

const (
	leaveMax = 15 * time.Second
	drainMax = 10 * time.Second // for a mail that is being sent when its partition is given up
)

// Directory is what the mailer asks about endpoints and accounts.
type Directory interface {
	// AwaitEndpoint waits until the endpoint's row has at least that version, or
	// is deleted.
	AwaitEndpoint(ctx context.Context, id string, version uint64) error
	// Endpoint gives an endpoint's row; not found once it was deleted.
	Endpoint(id string) (domain.Endpoint, bool, error)
	// Account gives an account's row.
	Account(id string) (domain.Account, bool, error)
	// Confirm waits until the rows are no older than the call.
	Confirm(ctx context.Context) error
}

// Sender takes a mail over. It returns nil once another has promised to deliver
// it; a *Refusal when this mail is the reason why it was not taken; any other
// error when no mail would have been. It may be used by many goroutines.
type Sender interface {
	Send(ctx context.Context, m Mail) error
}

// Refusal is a Sender's no to one mail.
type Refusal struct {
	Temporary bool // it may be taken later
	Err       error
}

func (r *Refusal) Error() string { return "the mail was refused: " + r.Err.Error() }

func (r *Refusal) Unwrap() error { return r.Err }

// Outcome is what became of a notice, or of one try.
type Outcome string

// Outcomes. All but Retried settle the notice.
const (
	Sent    Outcome = "sent"
	Retried Outcome = "retried"  // this try failed; another follows
	Refused Outcome = "refused"  // by the server, for good
	GivenUp Outcome = "given_up" // after three days, or in the way of others
	Nobody  Outcome = "nobody"   // the endpoint was deleted, or there is no address
)

// Outcomes lists all of them.
func Outcomes() []Outcome { return []Outcome{Sent, Retried, Refused, GivenUp, Nobody} }

// Config says what a mailer works on.
type Config struct {
	Cluster   streams.Cluster
	Directory Directory
	Sender    Sender
	// DisableAfter is how many failed events in a row disable an endpoint; 0: the
	// mail does not say.
	DisableAfter int
	// RunTime is how long all attempts at an event may take: the mail proposes a
	// replay from so long before the disabling.
	RunTime time.Duration
	// wait after the first try that failed, doubled by each further one; 0: 1 s
	RetryFirst time.Duration
	RetryLast  time.Duration // longest wait between tries; 0: 5 min
	OnOutcome  func(Outcome) // may be nil; must not block
	Now        func() time.Time
	Logger     *slog.Logger
}

// Mailer is one mailer of a deployment.
type Mailer struct {
	cfg        Config
	membership *streams.Membership
	joined     chan struct{} // closed when membership is set
	fail       context.CancelCauseFunc

	mu       sync.Mutex
	sessions map[int32]*running
	latest   map[int32]string // of each partition that was ours: the mail taken over last
}

// running is the session of a partition.
type running struct {
	end     context.CancelFunc // what is being sent may still be finished
	abandon context.CancelFunc // at once
	ended   chan struct{}
}

// New makes a mailer; Run works it.
func New(cfg Config) *Mailer {
	if cfg.RetryFirst == 0 {
		cfg.RetryFirst = time.Second
	}
	if cfg.RetryLast == 0 {
		cfg.RetryLast = 5 * time.Minute
	}
	if cfg.OnOutcome == nil {
		cfg.OnOutcome = func(Outcome) {}
	}
	return &Mailer{cfg: cfg, joined: make(chan struct{}),
		sessions: make(map[int32]*running), latest: make(map[int32]string)}
}

// Run mails until ctx ends, which is no error; a mail that is being sent then
// has 10 s left. It waits out what may pass, and fails only when the journal
// holds what this program cannot read. It may be called once.
func (m *Mailer) Run(ctx context.Context) error {
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m.fail = fail
	membership, err := m.cfg.Cluster.Join(streams.MembershipConfig{
		Group:    Group,
		Topic:    schemas.TopicJournal,
		Now:      m.cfg.Now,
		Assigned: func(partitions []int32) { m.assigned(serving, partitions) },
		Revoked:  func(partitions []int32) { m.give(partitions, func(r *running) { r.end() }) },
		Lost:     func(partitions []int32) { m.give(partitions, func(r *running) { r.abandon() }) },

		RevokeMax: drainMax + commitMax,
	})
	if err != nil {
		return err
	}
	m.membership = membership
	close(m.joined)
	<-serving.Done()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
	defer cancel()
	if err := membership.Leave(leaving); err != nil {
		m.cfg.Logger.Warn("the mailer could not leave its group; its partitions are given away after "+
			"the session timeout", "error", err)
	}
	m.give(m.owned(), func(r *running) { r.abandon() })
	if failure := context.Cause(serving); !errors.Is(context.Cause(ctx), failure) {
		return fmt.Errorf("mailer: %w", failure)
	}
	return nil
}

func (m *Mailer) assigned(ctx context.Context, partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		working, abandon := context.WithCancel(context.WithoutCancel(ctx))
		reading, end := context.WithCancel(ctx)
		r := &running{end: end, abandon: func() { end(); abandon() }, ended: make(chan struct{})}
		m.sessions[p] = r
		go func() {
			defer close(r.ended)
			stop := context.AfterFunc(reading, func() { time.AfterFunc(drainMax, abandon) })
			defer stop()
			m.keepRunning(reading, working, p)
		}()
	}
}

// give ends the sessions of partitions and waits for them.
func (m *Mailer) give(partitions []int32, how func(*running)) {
	m.mu.Lock()
	var ending []*running
	for _, p := range partitions {
		if r := m.sessions[p]; r != nil {
			delete(m.sessions, p)
			how(r)
			ending = append(ending, r)
		}
	}
	m.mu.Unlock()
	for _, r := range ending {
		<-r.ended
		r.abandon()
	}
}

func (m *Mailer) owned() (partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.sessions {
		partitions = append(partitions, p)
	}
	return partitions
}

// keepRunning runs one session after another: after a failure of the log, the
// committed position says where to go on.
func (m *Mailer) keepRunning(reading, working context.Context, partition int32) {
	select {
	case <-m.joined:
	case <-reading.Done():
		return
	}
	policy := retry.Policy{
		First: 100 * time.Millisecond,
		Last:  10 * time.Second,
		OnFailure: retry.Warn(m.cfg.Logger,
			"the mailer begins a partition again at its committed position", "partition", partition),
	}
	err := retry.Forever(reading, policy, func() (moved bool, err error) {
		s := &session{Mailer: m, partition: partition}
		err = s.run(reading, working)
		if err != nil && reading.Err() != nil {
			m.cfg.Logger.Warn("the mailer could not commit its last position: a mail may be sent again",
				"partition", partition, "error", err)
		}
		return s.moved, err
	})
	if err != nil {
		m.cfg.Logger.Error("the mailer stops: nobody is told of disabled endpoints any more", "error",
			err)
		m.fail(err)
	}
}

var errNotJoined = errors.New("the mailer has not joined its group yet")

// tookOver notes the mail of a partition that was taken over last. Nothing further is
// sent there before its position is committed, so that one is enough to know.
func (m *Mailer) tookOver(partition int32, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latest[partition] = id
}

// hasTakenOver reports whether a mail was taken over from this process already, and the
// group gave its partition away, and back, before it took the position.
func (m *Mailer) hasTakenOver(partition int32, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest[partition] == id
}

// Check fails while the group does not confirm that this mailer is one of it.
func (m *Mailer) Check() error {
	select {
	case <-m.joined:
		return m.membership.Check()
	default:
	}
	return errNotJoined
}
