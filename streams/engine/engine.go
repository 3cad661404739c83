package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// group is the consumer group that divides the partitions among engines, and
// that keeps their input positions.
const group = "engine"

// stateFormat is counted up when the keys or values of the store change.
const stateFormat = 4

// Dispatcher makes attempts. Dispatch returns at once; done is called once, from
// any goroutine, when the attempt has ended.
type Dispatcher interface {
	Dispatch(a domain.Attempt, done func(domain.AttemptResult))
	// Forget says that an endpoint no longer sends to a URL: connections kept for
	// it serve nobody.
	Forget(url string)
}

// Config says what an engine works on.
type Config struct {
	Cluster    streams.Cluster
	StateDir   string // holds one folder for each partition
	Policy     domain.Policy
	Dispatcher Dispatcher
	// Unseal opens a signing secret of an endpoint, which is bound to the
	// endpoint's id, or the value of a header of its own, which is bound to
	// domain.Header.SealedFor.
	Unseal func(sealed []byte, boundTo string) (domain.Secret, error)
	// AttemptsInFlight bounds the attempts under way for each partition,
	// AttemptsPerEndpoint those to one endpoint.
	AttemptsInFlight    int
	AttemptsPerEndpoint int
	// DrainTimeout bounds how long a stop waits for attempts under way.
	DrainTimeout time.Duration
	// OnFact is told of each fact that an own turn committed, if it is set.
	OnFact func(domain.Fact)
	// OnDeadLetter is told of each record that was set aside, by its topic, if it
	// is set.
	OnDeadLetter func(topic string)
	// OnTurn is told of each turn that wrote something, if it is set.
	OnTurn func(streams.TurnStats)
	// PartitionOf gives the partition of an aggregate. Run sets it.
	PartitionOf func(aggregate string) int32
	Now         func() time.Time
	Logger      *slog.Logger
}

// Engine is one engine process' share of the partitions.
type Engine struct {
	cfg        Config
	identity   string
	membership atomic.Pointer[streams.Membership]
	tasks      atomic.Pointer[streams.Tasks]

	mu      sync.Mutex
	flights map[int32]*Flights // by partition
}

// New makes an engine; Run works it.
func New(cfg Config) *Engine { return &Engine{cfg: cfg, flights: make(map[int32]*Flights)} }

// Run takes part in the group until ctx ends. Then attempts under way are
// awaited and recorded, and the partitions are given up.
func (e *Engine) Run(ctx context.Context) error {
	topic, partitions, err := e.cfg.Cluster.TopicIdentity(ctx, schemas.TopicJournal)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	e.cfg.PartitionOf = streams.PartitionOf(partitions)
	e.identity = fmt.Sprintf("engine state %d of %s over %d partitions",
		stateFormat, topic, partitions)
	tasks := streams.NewTasks(e.newTask, e.cfg.Logger)
	tasks.Ours = e.ours
	e.tasks.Store(tasks)
	membership, err := e.cfg.Cluster.Join(streams.MembershipConfig{
		Group:     group,
		Topic:     schemas.TopicCommands,
		Now:       e.cfg.Now,
		Assigned:  tasks.Assigned,
		Revoked:   tasks.Revoked,
		Lost:      tasks.Lost,
		RevokeMax: e.cfg.DrainTimeout,
	})
	if err != nil {
		return err
	}
	e.membership.Store(membership)
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		e.cfg.DrainTimeout+10*time.Second)
	defer cancel()
	return membership.Leave(leaving)
}

// Check fails while the group does not confirm that this engine is one of it,
// and while one of its partitions fails again and again.
func (e *Engine) Check() error {
	m := e.membership.Load()
	if m == nil {
		return errors.New("engine: it has not joined its group yet")
	}
	if err := m.Check(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return e.tasks.Load().Check()
}

// ours reports whether the group acknowledged lately that the partitions are ours.
func (e *Engine) ours() bool {
	m := e.membership.Load()
	return m != nil && m.Fresh()
}

// PartitionStats says how a partition of this engine does.
type PartitionStats struct {
	streams.TaskStats
	UnderWay int // attempts
}

// Stats says how the partitions of this engine do, in their order.
func (e *Engine) Stats() []PartitionStats {
	tasks := e.tasks.Load()
	if tasks == nil {
		return nil
	}
	var all []PartitionStats
	for _, t := range tasks.Stats() {
		all = append(all, PartitionStats{TaskStats: t, UnderWay: e.flightsOf(t.Partition).underWay()})
	}
	return all
}

const (
	taskCacheBytes    = 16 << 20
	taskMemTableBytes = 16 << 20
)

// flightsOf gives the attempts under way of a partition, which outlive its task.
func (e *Engine) flightsOf(partition int32) *Flights {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flights[partition] == nil {
		e.flights[partition] = NewFlights(e.cfg.Dispatcher)
	}
	return e.flights[partition]
}

func (e *Engine) newTask(partition int32) streams.Runner {
	flights := e.flightsOf(partition)
	var task *streams.Task[Effect, Outcome]
	task = streams.NewTask(streams.TaskConfig[Effect, Outcome]{
		CoreConfig: streams.CoreConfig[Effect, Outcome]{
			Partition: partition,
			Journal:   schemas.TopicJournal,
			Inputs:    Inputs(),
			Store: streams.StoreConfig{
				Dir:           filepath.Join(e.cfg.StateDir, strconv.Itoa(int(partition))),
				Identity:      e.identity,
				CacheBytes:    taskCacheBytes,
				MemTableBytes: taskMemTableBytes,
				Logger:        e.cfg.Logger,
			},
			NewHandler: func() streams.Handler[Effect, Outcome] {
				return NewHandler(e.cfg, flights.TakeUp(task.Complete))
			},
			DrainTimeout: e.cfg.DrainTimeout,
			Logger:       e.cfg.Logger,
		},
		Cluster:     e.cfg.Cluster,
		Group:       group,
		Perform:     flights.Perform,
		Completions: e.cfg.AttemptsInFlight,
		Ours:        e.ours,
		OnTurn:      e.cfg.OnTurn,
		Now:         e.cfg.Now,
	})
	return task
}
