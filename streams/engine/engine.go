package engine

import (
	"cmp"
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
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// group divides the partitions among engines and stores their input positions.
const group = "engine"

// Dispatcher makes attempts. Dispatch returns immediately, and calls done once, from any goroutine,
// when the attempt has finished.
type Dispatcher interface {
	Dispatch(a domain.Attempt, done func(domain.AttemptResult))
	// Disconnect closes the idle connections to a URL that an endpoint no longer uses.
	Disconnect(url string)
}

// Config configures an engine.
type Config struct {
	Cluster    kafka.Cluster
	StateDir   string // with one folder per partition
	Policy     domain.Policy
	Dispatcher Dispatcher
	// Unseal decrypts an endpoint's signing secret, bound to its id, or one of its header values,
	// bound to domain.Header.SealedFor.
	Unseal func(sealed []byte, boundTo string) (domain.Secret, error)
	// SigningKeys returns an endpoint's private Ed25519 keys that sign at that time, newest first. It
	// may be nil.
	SigningKeys func(name string, nowMillis int64) ([]domain.Secret, error)
	// The largest numbers of attempts in flight, per partition and per endpoint.
	AttemptsInFlight    int
	AttemptsPerEndpoint int
	// RememberedSettled is how many settled deliveries a partition remembers. The default is 16,384.
	// Only tests set it.
	RememberedSettled int
	// DrainTimeout bounds how long stopping waits for attempts in flight.
	DrainTimeout time.Duration
	// StandbyReplicas is the number of copies of each partition on other engines. Rack and
	// AcceptableLag are as in kafka.StandbyConfig.
	StandbyReplicas int
	Rack            string
	AcceptableLag   int64
	// SnapshotEvery is as in task.SnapshotConfig.
	SnapshotEvery int64
	// Formats default to those of this program. Only tests set them.
	Formats Formats
	// Allowed, if set, decides whether a task that has taken over its partition may continue: while
	// the process was paused, the topics may have been replaced.
	Allowed func(context.Context) error
	// OnFact, if set, is called for each fact that this engine committed.
	OnFact func(domain.Fact)
	// OnDeadLetter, if set, is called with the source topic of each dead letter.
	OnDeadLetter func(topic string)
	// OnTurn, if set, is called for each turn that wrote something.
	OnTurn func(task.TurnStats)
	// OnRestart, if set, is called each time a partition's task has failed and will be restarted.
	OnRestart func()
	// Retained lists the topics from which this engine deletes records that its partitions no longer
	// need. Keep and KeepBytes are as in topology.RetentionConfig.
	Retained    []topology.RetainedTopic
	Keep        time.Duration
	KeepBytes   int64
	RetainEvery time.Duration // default: one minute
	// PartitionOf returns the partition of an aggregate. Run sets it.
	PartitionOf func(aggregate string) int32
	Now         func() time.Time
	Logger      *slog.Logger
}

func (cfg Config) remembered() int { return cmp.Or(cfg.RememberedSettled, rememberedSettled) }

// Engine is one process's share of the partitions.
type Engine struct {
	cfg        Config
	identity   string // of local states
	snapshots  task.SnapshotConfig
	retention  *topology.Retention
	membership atomic.Pointer[kafka.Membership]
	tasks      atomic.Pointer[task.Tasks]

	mu      sync.Mutex
	flights map[int32]*Flights // by partition
	rests   map[int32]*task.SnapshotRest
}

// New returns an engine. Call Run to start it.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg:     cfg,
		flights: make(map[int32]*Flights),
		rests:   make(map[int32]*task.SnapshotRest),
	}
	e.retention = topology.NewRetention(topology.RetentionConfig{
		Cluster:   cfg.Cluster,
		Topics:    cfg.Retained,
		Keep:      cfg.Keep,
		KeepBytes: cfg.KeepBytes,
		Owned:     e.restores,
		Every:     cfg.RetainEvery,
		Now:       cfg.Now,
		Logger:    cfg.Logger,
	})
	return e
}

// Run takes part in the group until ctx is done. Then it waits for the attempts in flight, records
// them, and gives up its partitions.
func (e *Engine) Run(ctx context.Context) error {
	topic, partitions, err := e.cfg.Cluster.TopicIdentity(ctx, schemas.TopicJournal)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	e.cfg.PartitionOf = kafka.PartitionOf(partitions)
	formats := e.cfg.Formats.orOwn()
	e.identity = fmt.Sprintf("engine state %d of %s over %d partitions, with %d settled deliveries",
		formats.Number, topic, partitions, e.cfg.remembered())
	e.snapshots = formats.snapshots(partitions)
	e.snapshots.Every = e.cfg.SnapshotEvery
	tasks := task.NewTasks(e.newTask, e.cfg.Logger)
	tasks.Owned, tasks.NewStandby, tasks.OnRestart = e.owned, e.newStandby, e.cfg.OnRestart
	defer tasks.Close()
	e.tasks.Store(tasks)
	membership, err := e.cfg.Cluster.Join(kafka.MembershipConfig{
		Group:     group,
		Topic:     schemas.TopicCommands,
		Now:       e.cfg.Now,
		Assigned:  tasks.Assigned,
		Revoked:   tasks.Revoked,
		Lost:      tasks.Lost,
		RevokeMax: e.cfg.DrainTimeout,
		Standbys: &kafka.StandbyConfig{
			Replicas:      e.cfg.StandbyReplicas,
			Rack:          e.cfg.Rack,
			AcceptableLag: e.cfg.AcceptableLag,
			Folded:        tasks.Folded,
			StandBy:       tasks.StandBy,
			Lag:           tasks.Lag,
		},
	})
	if err != nil {
		return err
	}
	e.membership.Store(membership)
	if err = e.retention.Run(ctx); err != nil && ctx.Err() == nil {
		e.cfg.Logger.Error("retention has stopped, so old records are not deleted", "error", err)
	}
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		e.cfg.DrainTimeout+10*time.Second)
	defer cancel()
	return errors.Join(err, membership.Leave(leaving))
}

// Check returns an error while the group does not confirm this engine's membership, or one of its
// partitions keeps failing.
func (e *Engine) Check() error {
	m := e.membership.Load()
	if m == nil {
		return errors.New("engine: not a member of its group yet")
	}
	if err := m.Check(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return e.tasks.Load().Check()
}

func (e *Engine) owned() bool {
	m := e.membership.Load()
	return m != nil && m.Fresh()
}

// Retained returns, for each topic, the first offset that this engine's partitions still need.
func (e *Engine) Retained() []topology.RetentionStatus { return e.retention.Statuses() }

func (e *Engine) restores() []topology.RetainedPartition {
	var list []topology.RetainedPartition
	for _, p := range e.Stats() {
		list = append(list, topology.RetainedPartition{Number: p.Partition, Restores: map[string]int64{
			schemas.TopicJournal:   p.Needed.Journal,
			schemas.TopicSnapshots: p.Needed.Snapshots,
		}})
	}
	return list
}

// PartitionStats contains the statistics of one partition.
type PartitionStats struct {
	task.Stats
	InFlight int
}

// Stats returns the statistics of this engine's partitions, in ascending order.
func (e *Engine) Stats() []PartitionStats {
	tasks := e.tasks.Load()
	if tasks == nil {
		return nil
	}
	var all []PartitionStats
	for _, t := range tasks.Stats() {
		all = append(all, PartitionStats{Stats: t, InFlight: e.flightsOf(t.Partition).inFlight()})
	}
	return all
}

// StandbyStats returns the statistics of this engine's standbys, by partition.
func (e *Engine) StandbyStats() []task.StandbyStats {
	tasks := e.tasks.Load()
	if tasks == nil {
		return nil
	}
	return tasks.StandbyStats()
}

const (
	taskCacheBytes    = 16 << 20
	taskMemTableBytes = 16 << 20
)

// flightsOf returns a partition's attempts in flight, which outlive its task.
func (e *Engine) flightsOf(partition int32) *Flights {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flights[partition] == nil {
		e.flights[partition] = NewFlights(e.cfg.Dispatcher)
	}
	return e.flights[partition]
}

// restOf returns the pause of a partition's snapshots, which outlives its task.
func (e *Engine) restOf(partition int32) *task.SnapshotRest {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rests[partition] == nil {
		e.rests[partition] = task.NewSnapshotRest()
	}
	return e.rests[partition]
}

func (e *Engine) newTask(partition int32) task.Runner {
	flights := e.flightsOf(partition)
	var owner *task.Task[Effect, Outcome]
	core := e.coreConfig(partition)
	core.NewHandler = func() task.Handler[Effect, Outcome] {
		return NewHandler(e.cfg, flights.Inherit(owner.Complete))
	}
	owner = task.NewTask(task.Config[Effect, Outcome]{
		CoreConfig:  core,
		Cluster:     e.cfg.Cluster,
		Group:       group,
		Perform:     flights.Perform,
		Completions: e.cfg.AttemptsInFlight,
		Owned:       e.owned,
		Allowed:     e.cfg.Allowed,
		OnTurn:      e.cfg.OnTurn,
		Now:         e.cfg.Now,
	})
	return owner
}

func (e *Engine) newStandby(partition int32, following func()) task.Standby {
	core := e.coreConfig(partition)
	core.NewHandler = func() task.Handler[Effect, Outcome] { return NewHandler(e.cfg, nil) }
	return task.NewStandbyTask(task.StandbyTaskConfig[Effect, Outcome]{
		CoreConfig:  core,
		Cluster:     e.cfg.Cluster,
		OnFollowing: following,
	})
}

func (e *Engine) coreConfig(partition int32) task.CoreConfig[Effect, Outcome] {
	snapshots := e.snapshots
	snapshots.Rest = e.restOf(partition)
	return task.CoreConfig[Effect, Outcome]{
		Partition: partition,
		Journal:   schemas.TopicJournal,
		Inputs:    Inputs(),
		Store: store.Config{
			Dir:           filepath.Join(e.cfg.StateDir, strconv.Itoa(int(partition))),
			Identity:      e.identity,
			CacheBytes:    taskCacheBytes,
			MemTableBytes: taskMemTableBytes,
			Unlogged:      true,
			Logger:        e.cfg.Logger,
		},
		DrainTimeout: e.cfg.DrainTimeout,
		Snapshots:    snapshots,
		Logger:       e.cfg.Logger,
	}
}
