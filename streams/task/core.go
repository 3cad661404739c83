package task

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// Handler is the application's part of a task: it folds records and makes decisions. E is the type
// of its effects, and C the type of their completions. One goroutine calls its methods, which must
// not retain their arguments.
type Handler[E, C any] interface {
	// Fold applies a committed journal record to the state. It must be deterministic.
	Fold(b *store.Batch, r kafka.Record) error
	// Start handles the first turn after a restore.
	Start(t *Turn) error
	// Turn handles inputs and completions. It folds the facts that it appends to the journal itself,
	// so that later inputs of the turn see their effect.
	Turn(t *Turn, completions []C) error
	// Flush writes buffered changes to the batch. It is the last call before the batch is committed.
	Flush(b *store.Batch) error
	// AfterCommit returns the effects to start after a turn is committed, in order, and the latest
	// time of its next call, in Unix milliseconds. A call may follow without another turn.
	AfterCommit(a After) (effects []E, wakeMillis int64, err error)
	// Drain tells the handler to start no more effects.
	Drain()
	// Busy reports whether effects are in flight.
	Busy() bool
	// Unhurried reports whether completions may wait a few milliseconds to share a turn with inputs,
	// because nothing waits for the capacity that they free.
	Unhurried() bool
}

// Turn is a batch of inputs and the handler's decisions on it.
type Turn struct {
	NowMillis int64
	// Next is a lower bound for the journal offset of the turn's first record.
	Next   int64
	Batch  *store.Batch
	Timers *store.TimerIndex
	// Inputs are records by topic, as in CoreConfig.Inputs. A handler truncates the slices to leave
	// records for the next turn.
	Inputs [][]kafka.Record

	partition int32
	out       []kafka.Record
	positions map[string]int64
}

// Append adds a record to the turn's transaction, in the task's own partition.
func (t *Turn) Append(r kafka.Record) { t.AppendTo(t.partition, r) }

// AppendTo is Append to another task's partition. The topic must be an input: a task does not read
// back what it writes to other partitions.
func (t *Turn) AppendTo(partition int32, r kafka.Record) {
	r.Partition = partition
	t.out = append(t.out, r)
}

// After is the argument of AfterCommit.
type After struct {
	NowMillis int64
	Owned     bool // the group recently acknowledged that this process owns the partition
	Timers    *store.TimerIndex
	State     *store.Store // including the turn
}

// CoreConfig configures a core.
type CoreConfig[E, C any] struct {
	Partition int32
	Journal   string   // the topic from which the state is folded
	Inputs    []string // topics, in the order in which turns take them
	Store     store.Config
	// NewHandler is called when the task has taken over the partition.
	NewHandler   func() Handler[E, C]
	DrainTimeout time.Duration
	Snapshots    SnapshotConfig
	Logger       *slog.Logger
}

const (
	// TurnInputs bounds the records per topic, and the completions, that a turn takes.
	TurnInputs = 1024
	// TurnFacts bounds the journal records that a turn writes.
	TurnFacts = 8 * TurnInputs
	// positionsEvery is the longest time without a transaction. It keeps the task's input positions
	// and its transactional id from expiring.
	positionsEvery = 24 * time.Hour
	// completionsWait is how long completions wait for inputs if the handler is unhurried. It halves
	// the number of turns if inputs arrive more often.
	completionsWait = 20 * time.Millisecond
	// After a turn with manyInputs, the next inputs wait until inputsWait has passed since that turn
	// began, because larger turns need fewer transactions. On a quiet partition inputs never wait.
	manyInputs = 3
	inputsWait = 6 * time.Millisecond
)

// Core is a task as a state machine: the task's state, timers and handler, and all rules for taking
// over, working on and giving up a partition. It has no goroutines, clock or network. Its owner, a
// Kafka client or a simulation, performs the Next action and reports the result.
type Core[E, C any] struct {
	cfg      CoreConfig[E, C]
	stage    stage
	store    *store.Store // nil before the partition is taken over
	timers   *store.TimerIndex
	handler  Handler[E, C]
	progress progress
	restore  restore
	loader   loader
	// read is set once a caller relies on the state, which must not be rebuilt after that.
	read bool
	// standby is set in the copy of a partition that another process owns ([NewStandbyCore]), and
	// following once the copy has passed the end that was known at the start.
	standby, following bool

	snapshots   snapshots
	pending     [][]kafka.Record // by input
	completions []C
	completed   int64 // when the first completion was seen, on the steady clock; 0 if there are none

	turn         *Turn
	turnNext     int64 // offset after the turn's last journal record; 0 if it wrote none
	working      bool  // the state is restored and inputs are read
	draining     bool
	drainUntil   int64 // on the steady clock
	committed    int64 // time of the last transaction or the start of work, on the steady clock
	inputsFrom   int64 // when the next turn with inputs may begin, on the steady clock
	wakeAtMillis int64 // when to call the handler again, on the wall clock
}

// stage is the core's current step. A core restores its state, takes the first turn, and then one
// turn after another:
//
//	restore     fencing → locating → [seeking → indexing → loading] → folding →
//	            provingEnd → catchingUp
//	first turn  starting → [committing] → applying → positioning
//	later turns awaiting → [committing] → applying
//
// A turn that writes nothing skips committing. If the journal contains all records that the state
// lacks, no snapshot is loaded. Folding and catchingUp return to seeking or loading if the state
// turns out to belong to another journal.
type stage int

const (
	fencing  stage = iota
	locating       // reading the journal's first offset and end
	seeking        // reading the first offset and end of the snapshot topic
	indexing
	loading
	folding    // up to the journal's known end
	provingEnd // writing a record that marks the journal's end
	catchingUp // folding up to that record
	starting   // the first turn is due
	committing
	applying
	positioning
	awaiting
)

// NewCore returns a core. It opens nothing yet.
func NewCore[E, C any](cfg CoreConfig[E, C]) *Core[E, C] {
	if cfg.Snapshots.Rest == nil {
		cfg.Snapshots.Rest = NewSnapshotRest()
	}
	return &Core[E, C]{
		cfg: cfg,
		progress: progress{
			journal:   cfg.Journal,
			partition: cfg.Partition,
			inputs:    cfg.Inputs,
			logger:    cfg.Logger,

			groupedMillis: -groupEvery.Milliseconds(),
		},
		pending: make([][]kafka.Record, len(cfg.Inputs)),
	}
}

// Next returns the next action for the owner.
func (c *Core[E, C]) Next(now kafka.Moment) Action {
	if c.draining && c.isDrained(now) {
		return Done{}
	}
	switch c.stage {
	case fencing:
		return TakeOver{}
	case locating:
		return LocateJournal{}
	case seeking:
		return LocateSnapshots{}
	case indexing, loading:
		return ReadSnapshots{From: c.loader.at, To: c.loader.to}
	case folding, catchingUp:
		return ReadJournal{From: c.restore.at, To: c.restore.to}
	case provingEnd:
		return Commit{Records: []kafka.Record{StartRecord(c.cfg.Journal, c.cfg.Partition)}}
	case starting:
		return Start{}
	case committing:
		return Commit{Records: c.turn.out, Positions: c.turn.positions}
	case applying:
		return Apply{}
	case positioning:
		return LocateInputs{}
	default:
		return c.await(now)
	}
}

// Due reports whether the next turn is due.
func (c *Core[E, C]) Due(now kafka.Moment) bool {
	a, awaits := c.Next(now).(Await)
	return !awaits || now.WallMillis >= a.WallMillis || now.SteadyMillis >= a.SteadyMillis
}

// isDrained reports whether a stopping core may stop now. It completes a commit first.
func (c *Core[E, C]) isDrained(now kafka.Moment) bool {
	switch c.stage {
	case committing, applying:
		return false
	case awaiting:
		return len(c.completions) == 0 &&
			(!c.handler.Busy() || now.SteadyMillis >= c.drainUntil)
	default:
		return true
	}
}

func (c *Core[E, C]) await(now kafka.Moment) Await {
	a := Await{Inputs: !c.draining, WallMillis: c.wakeAtMillis, SteadyMillis: math.MaxInt64}
	if c.draining {
		a.SteadyMillis = c.drainUntil
	}
	some := func(records []kafka.Record) bool { return len(records) > 0 }
	if c.snapshots.writer != nil && !c.draining {
		a.WallMillis = 0 // for its next record
	}
	switch {
	case a.Inputs && slices.ContainsFunc(c.pending, some):
		a.SteadyMillis = min(a.SteadyMillis, c.inputsFrom)
	case len(c.completions) == 0:
	case c.draining || !c.handler.Unhurried():
		a.WallMillis = 0
	default:
		if c.completed == 0 {
			c.completed = max(1, now.SteadyMillis)
		}
		a.SteadyMillis = min(a.SteadyMillis, c.completed+completionsWait.Milliseconds())
	}
	return a
}

// OpenState opens the state after the partition was taken over.
func (c *Core[E, C]) OpenState() (err error) {
	if c.store, err = store.Open(c.cfg.Store); err != nil {
		return err
	}
	c.handler = c.cfg.NewHandler()
	c.stage = locating
	return errors.Join(c.progress.load(c.store), c.snapshots.kept.load(c.store),
		c.snapshots.held.load(c.store))
}

// Committed reports a commit. ends are the offsets after its last records in the owner's partition,
// by topic.
func (c *Core[E, C]) Committed(ends map[string]int64, now kafka.Moment) error {
	next := ends[c.cfg.Journal]
	if c.stage == provingEnd {
		return c.catchUpTo(next)
	}
	c.snapshots.wroteSnapshot(ends[c.cfg.Snapshots.Topic])
	c.turnNext, c.committed, c.stage = next, now.SteadyMillis, applying
	return nil
}

// LocatedInputs reports the group's positions of the inputs and the inputs' ends, by topic. It
// returns the positions to read from.
func (c *Core[E, C]) LocatedInputs(
	group, ends map[string]int64,
) (from map[string]int64, err error) {
	if from, err = c.progress.resume(group, ends); err == nil {
		c.stage, c.working, c.wakeAtMillis = awaiting, true, 0
	}
	return from, err
}

// Arrived adds records of the input with this index in CoreConfig.Inputs.
func (c *Core[E, C]) Arrived(input int, records []kafka.Record) {
	c.pending[input] = append(c.pending[input], records...)
}

// Waiting returns how many records of an input no turn has taken. At TurnInputs, the owner stops
// adding records.
func (c *Core[E, C]) Waiting(input int) int { return len(c.pending[input]) }

// Completed adds completions of effects.
func (c *Core[E, C]) Completed(completions ...C) {
	c.completions = append(c.completions, completions...)
}

// Start takes the first turn, which has no inputs or completions.
func (c *Core[E, C]) Start(now kafka.Moment) (err error) {
	if err := c.endFolding(); err != nil {
		return err
	}
	if c.timers, err = store.NewTimerIndex(c.store); err != nil {
		return err
	}
	if err := c.begin(now); err != nil {
		return err
	}
	if err := c.handler.Start(c.turn); err != nil {
		return err
	}
	return c.decided()
}

// TurnSize is the number of a turn's inputs and completions.
type TurnSize struct{ Inputs, Completions int }

// Decide takes a turn with what has arrived. Inputs that the handler leaves stay for the next turn.
func (c *Core[E, C]) Decide(now kafka.Moment) (size TurnSize, err error) {
	if err := c.begin(now); err != nil {
		return size, err
	}
	c.turn.Inputs = make([][]kafka.Record, len(c.pending))
	for i, pending := range c.pending {
		if !c.draining {
			n := min(len(pending), TurnInputs)
			c.turn.Inputs[i] = pending[:n:n]
		}
	}
	size.Completions = min(len(c.completions), TurnInputs)
	if err := c.handler.Turn(c.turn, c.completions[:size.Completions]); err != nil {
		return size, err
	}
	c.completions, c.completed = slices.Delete(c.completions, 0, size.Completions), 0
	for i, records := range c.turn.Inputs {
		size.Inputs += len(records)
		c.pending[i] = c.pending[i][len(records):]
	}
	if size.Inputs >= manyInputs {
		c.inputsFrom = now.SteadyMillis + inputsWait.Milliseconds()
	}
	idle := now.SteadyMillis - c.committed
	c.progress.advanceInputs(c.turn, now.SteadyMillis, idle >= positionsEvery.Milliseconds())
	if err := c.writeSnapshot(); err != nil {
		return size, err
	}
	return size, c.decided()
}

func (c *Core[E, C]) decided() error {
	facts := 0
	for _, r := range c.turn.out {
		if r.Topic == c.cfg.Journal {
			facts++
		}
	}
	if facts > TurnFacts {
		return fmt.Errorf("streams: a turn wrote %d journal records, but only %d are allowed",
			facts, TurnFacts)
	}
	c.turnNext, c.stage = 0, applying
	if len(c.turn.out) > 0 {
		c.stage = committing
	}
	return nil
}

func (c *Core[E, C]) begin(now kafka.Moment) error {
	c.turn = &Turn{
		NowMillis: now.WallMillis,
		Next:      c.progress.next,
		Batch:     c.store.Begin(),
		Timers:    c.timers,
		partition: c.cfg.Partition,
	}
	return c.snapshots.held.advance(c.turn.Batch, now.WallMillis)
}

// Apply commits the state that the turn has folded, and returns the effects to start. now is a time
// after the turn's commit. owned reports whether the group recently acknowledged that this process
// owns the partition.
func (c *Core[E, C]) Apply(now kafka.Moment, owned bool) (effects []E, err error) {
	turn := c.turn
	c.turn = nil
	c.progress.advanceTurn(turn, c.turnNext)
	whole, err := c.noteSnapshot(turn.Batch)
	if err != nil {
		turn.Batch.Discard()
		return nil, err
	}
	if err := c.commitState(turn.Batch, c.turnNext > 0); err != nil {
		return nil, err
	}
	if whole { // retention may now delete up to the previous snapshot: no state may end before it
		if err := c.store.BeginFlush(); err != nil {
			return nil, err
		}
	}
	c.timers.Apply(turn.Batch)
	c.stage = awaiting
	if !c.working {
		c.stage, c.committed = positioning, now.SteadyMillis
	}
	effects, c.wakeAtMillis, err = c.handler.AfterCommit(After{
		NowMillis: now.WallMillis,
		Owned:     owned,
		Timers:    c.timers,
		State:     c.store,
	})
	return effects, errors.Join(err, c.beginSnapshot(now))
}

func (c *Core[E, C]) commitState(batch *store.Batch, journalAdvanced bool) error {
	err := c.handler.Flush(batch)
	if journalAdvanced {
		err = errors.Join(err, c.progress.saveJournal(batch))
	}
	if err := errors.Join(err, c.progress.saveInputs(batch)); err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}

// Drain stops the core once the effects in flight have completed, or after DrainTimeout.
func (c *Core[E, C]) Drain(now kafka.Moment) {
	c.draining, c.drainUntil = true, now.SteadyMillis+c.cfg.DrainTimeout.Milliseconds()
	if c.handler != nil {
		c.handler.Drain()
	}
}

// Failed reports that an action failed, and returns its error. If aborted records may have been
// folded, the state is rebuilt at the next start. If the turn wrote a part of a snapshot, snapshots
// pause.
func (c *Core[E, C]) Failed(err error, now kafka.Moment) error {
	c.failedSnapshot(err, now)
	if errors.Is(err, kafka.ErrAborted) && !c.Working() && c.store != nil {
		return errors.Join(err, c.store.Distrust())
	}
	return err
}

// Working reports whether the start is complete: the state is restored, the first turn is applied,
// and the input positions are known.
func (c *Core[E, C]) Working() bool { return c.working }

// Store returns the state for reading committed data, or nil before it is open.
func (c *Core[E, C]) Store() *store.Store { return c.store }

// Timers returns the timer index, or nil before the first turn.
func (c *Core[E, C]) Timers() *store.TimerIndex { return c.timers }

// Folded returns the offset of the next journal record to fold.
func (c *Core[E, C]) Folded() int64 { return c.progress.next }

// FoldedOf returns the offset that a member reports for its copy. It may be too high if the journal
// was truncated or recreated.
func (c *Core[E, C]) FoldedOf() int64 {
	if c.working {
		return c.progress.next
	}
	return min(c.progress.next, c.restore.at)
}

// Close drops uncommitted changes and closes the state.
func (c *Core[E, C]) Close() error {
	if c.store == nil {
		return nil
	}
	for _, batch := range []*store.Batch{c.restore.batch, c.turnBatch()} {
		if batch != nil {
			batch.Discard()
		}
	}
	store := c.store
	c.store = nil
	c.loader.close()
	return errors.Join(c.dropSnapshot(), store.Close())
}

func (c *Core[E, C]) turnBatch() *store.Batch {
	if c.turn == nil {
		return nil
	}
	return c.turn.Batch
}
