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

// group is the consumer group that divides the partitions among engines, and that stores
// their input positions.
const group = "engine"

// stateFormat is incremented when the keys or values of the store change.
const stateFormat = 5

// Dispatcher makes attempts. Dispatch returns at once; done is called once, from
// any goroutine, when the attempt has ended.
type Dispatcher interface {
	Dispatch(a domain.Attempt, done func(domain.AttemptResult))
	// Disconnect says that an endpoint no longer sends to a URL: connections kept for
	// it serve nobody.
	Disconnect(url string)
}

// Config configures an engine.
type Config struct {
	Cluster    streams.Cluster
	StateDir   string // holds one folder for each partition
	Policy     domain.Policy
	Dispatcher Dispatcher
	// Unseal opens an endpoint's signing secret, which is bound to the endpoint's id, or
	// the value of one of its headers, which is bound to domain.Header.SealedFor.
	Unseal func(sealed []byte, boundTo string) (domain.Secret, error)
	// AttemptsInFlight bounds the attempts in flight for each partition,
	// AttemptsPerEndpoint those to one endpoint.
	AttemptsInFlight    int
	AttemptsPerEndpoint int
	// DrainTimeout bounds how long a stop waits for attempts in flight.
	DrainTimeout time.Duration
	// OnFact, if set, is called for each fact that a turn of this engine committed.
	OnFact func(domain.Fact)
	// OnDeadLetter, if set, is called with the topic of each record that became a dead
	// letter.
	OnDeadLetter func(topic string)
	// OnTurn, if set, is called for each turn that wrote something.
	OnTurn func(streams.TurnStats)
	// PartitionOf returns the partition of an aggregate. Run sets it.
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

// New makes an engine; Run runs it.
func New(cfg Config) *Engine { return &Engine{cfg: cfg, flights: make(map[int32]*Flights)} }

// Run takes part in the group until ctx ends. Then it waits for the attempts in flight,
// records them, and gives the partitions up.
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
	tasks.Owned = e.owned
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

// Check returns an error while the group does not confirm this engine's membership, and
// while one of its partitions fails again and again.
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

// owned reports whether the group acknowledged lately that this engine owns its partitions.
func (e *Engine) owned() bool {
	m := e.membership.Load()
	return m != nil && m.Fresh()
}

// PartitionStats are the statistics of one partition.
type PartitionStats struct {
	streams.TaskStats
	InFlight int // attempts in flight
}

// Stats returns the statistics of this engine's partitions, in their order.
func (e *Engine) Stats() []PartitionStats {
	tasks := e.tasks.Load()
	if tasks == nil {
		return nil
	}
	var all []PartitionStats
	for _, t := range tasks.Stats() {
		all = append(all, PartitionStats{TaskStats: t, InFlight: e.flightsOf(t.Partition).inFlight()})
	}
	return all
}

const (
	taskCacheBytes    = 16 << 20
	taskMemTableBytes = 16 << 20
)

// flightsOf returns the attempts in flight of a partition, which outlive its task.
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
				return NewHandler(e.cfg, flights.Inherit(task.Complete))
			},
			DrainTimeout: e.cfg.DrainTimeout,
			Logger:       e.cfg.Logger,
		},
		Cluster:     e.cfg.Cluster,
		Group:       group,
		Perform:     flights.Perform,
		Completions: e.cfg.AttemptsInFlight,
		Owned:       e.owned,
		OnTurn:      e.cfg.OnTurn,
		Now:         e.cfg.Now,
	})
	return task
}
