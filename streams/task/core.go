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

// Handler is the application's part of a task: it folds records and decides. E is the type of its
// effects outside of the log and the state, C the type of their completions. One goroutine calls
// its methods. It must not retain its arguments.
type Handler[E, C any] interface {
	// Fold changes the state according to a committed record of the journal. It must be
	// deterministic: the same records give the same state.
	Fold(b *store.Batch, r kafka.Record) error
	// Start is the first turn after a restore.
	Start(t *Turn) error
	// Turn decides on inputs and completions. It folds the records that it appends to the journal
	// itself, so that later inputs of the turn see their effect.
	Turn(t *Turn, completions []C) error
	// Flush writes the changes that Fold, Start and Turn have buffered in memory. It is the last
	// call before a batch of state is committed.
	Flush(b *store.Batch) error
	// AfterCommit returns the effects to start after the turn is committed, in order, and the
	// latest time of its next call, in Unix milliseconds. It is also called when time has passed
	// without inputs.
	AfterCommit(a After) (effects []E, wakeMillis int64, err error)
	// Drain asks the handler to start no more effects.
	Drain()
	// Busy reports whether any effects are still in flight.
	Busy() bool
	// Unhurried reports whether completions may wait a few milliseconds to share a turn with
	// inputs, because nothing is waiting for the capacity that they free.
	Unhurried() bool
}

// Turn is one batch of inputs and the handler's decisions on it.
type Turn struct {
	NowMillis int64
	// Next is a lower bound for the journal offset of the turn's first record.
	Next   int64
	Batch  *store.Batch
	Timers *store.TimerIndex
	// Inputs are records by topic, in the order of CoreConfig.Inputs. A handler that wants to leave
	// records for the next turn truncates the slices here.
	Inputs [][]kafka.Record

	partition int32
	out       []kafka.Record
	positions map[string]int64
}

// Append adds a record to the turn's transaction, in the task's own partition of the topic.
func (t *Turn) Append(r kafka.Record) { t.AppendTo(t.partition, r) }

// AppendTo is Append to another task's partition. The topic must be an input topic of tasks: a task
// does not read back the records that it wrote to other partitions.
func (t *Turn) AppendTo(partition int32, r kafka.Record) {
	r.Partition = partition
	t.out = append(t.out, r)
}

// After is the input of AfterCommit.
type After struct {
	NowMillis int64
	Owned     bool // the group acknowledged lately that this process owns the partition
	Timers    *store.TimerIndex
	State     *store.Store // with the turn applied
}

// CoreConfig configures a core.
type CoreConfig[E, C any] struct {
	Partition int32
	Journal   string   // the topic that the state is folded from
	Inputs    []string // topics, in the order in which turns take them
	Store     store.Config
	// NewHandler creates the handler after the task has taken the partition over.
	NewHandler func() Handler[E, C]
	// DrainTimeout bounds how long a stopping task waits for completions.
	DrainTimeout time.Duration
	Snapshots    SnapshotConfig
	Logger       *slog.Logger
}

const (
	// TurnInputs bounds how many records of one topic, and how many completions, a
	// turn takes.
	TurnInputs = 1024
	// TurnFacts bounds how many records of the journal a turn may write.
	TurnFacts = 8 * TurnInputs
	// positionsEvery is the longest time without a transaction before a task writes its input
	// positions, so that neither they nor its transactional id expire.
	positionsEvery = 24 * time.Hour
	// completionsWait is how long completions wait for inputs if the handler is unhurried. If
	// inputs arrive more often than this, a turn takes both, and there are half as many turns.
	completionsWait = 20 * time.Millisecond
	// manyInputs is the batch size at which a partition counts as busy. After a turn with at least
	// that many inputs, the next inputs wait until inputsWait has passed since that turn began:
	// larger turns need fewer transactions. On a quiet partition inputs never wait.
	manyInputs = 3
	inputsWait = 6 * time.Millisecond
)

// Core is a task as a state machine. It holds the task's state, timers and handler, and all rules
// for taking over, working on and giving up a partition. It has no goroutine, no clock and no
// network: its owner asks for the Next action, performs it, and reports the result. The owner may
// be a Kafka client or a simulation.
type Core[E, C any] struct {
	cfg      CoreConfig[E, C]
	stage    stage
	store    *store.Store // nil before the partition is taken over
	timers   *store.TimerIndex
	handler  Handler[E, C]
	progress progress
	restore  restore
	loader   loader
	// read is set once a caller has relied on the state, which then must not be rebuilt.
	read bool

	snapshots   snapshots
	pending     [][]kafka.Record // by input
	completions []C
	completed   int64 // when the first completion was seen, by the steady clock; 0: no completions

	turn         *Turn
	turnNext     int64 // offset after the turn's last journal record; 0: it wrote none
	working      bool  // the state is restored and the inputs are being read
	draining     bool
	drainUntil   int64 // by the steady clock
	committed    int64 // when the last transaction was committed, or work began, by the steady clock
	inputsFrom   int64 // when the next turn with inputs may begin, by the steady clock
	wakeAtMillis int64 // when the handler wants to be called again, by the wall clock
}

// stage is the core's current step. A core restores its state, takes the first turn, and then one
// turn after another:
//
//	restore     fencing → locating → [seeking → indexing → loading] → folding →
//	            provingEnd → catchingUp
//	first turn  starting → [committing] → applying → positioning
//	later turns awaiting → [committing] → applying
//
// A turn that writes nothing skips committing. If the journal holds all records that the state
// lacks, no snapshot is loaded. Folding and catchingUp return to seeking or loading if the journal
// shows that the state belongs to another journal.
type stage int

const (
	fencing     stage = iota
	locating          // reading the journal's first and end offsets
	seeking           // reading the first and end offsets of the topic of snapshots
	indexing          // listing the snapshots
	loading           // loading one snapshot
	folding           // folding the journal up to its known end
	provingEnd        // writing a record to mark the journal's end
	catchingUp        // folding up to that record
	starting          // the first turn is due
	committing        // writing a turn's records
	applying          // committing a turn's state
	positioning       // reading the input positions
	awaiting          // waiting for the next turn
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

// Next returns the next action of the owner.
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

// isDrained reports whether a stopping core may end now. A restore has nothing to drain. A turn
// that is being committed is finished first.
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
		a.WallMillis = 0 // its next record
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

// TookOver opens the state, after the partition was taken over.
func (c *Core[E, C]) TookOver() (err error) {
	if c.store, err = store.Open(c.cfg.Store); err != nil {
		return err
	}
	c.handler = c.cfg.NewHandler()
	c.stage = locating
	return errors.Join(c.progress.load(c.store), c.snapshots.kept.load(c.store),
		c.snapshots.held.load(c.store))
}

// Committed reports that a commit succeeded. ends are the offsets after the last records that it
// wrote to the owner's partition, by topic.
func (c *Core[E, C]) Committed(ends map[string]int64, now kafka.Moment) error {
	next := ends[c.cfg.Journal]
	if c.stage == provingEnd {
		return c.catchUpTo(next)
	}
	c.snapshots.wroteSnapshot(ends[c.cfg.Snapshots.Topic])
	c.turnNext, c.committed, c.stage = next, now.SteadyMillis, applying
	return nil
}

// LocatedInputs reports the group's committed positions of the inputs and their end
// offsets, by topic. It returns the positions to read from.
func (c *Core[E, C]) LocatedInputs(
	group, ends map[string]int64,
) (from map[string]int64, err error) {
	if from, err = c.progress.resume(group, ends); err == nil {
		c.stage, c.working, c.wakeAtMillis = awaiting, true, 0
	}
	return from, err
}

// Arrived passes in records of the input with this index in CoreConfig.Inputs.
func (c *Core[E, C]) Arrived(input int, records []kafka.Record) {
	c.pending[input] = append(c.pending[input], records...)
}

// Waiting returns the number of records of an input that no turn has taken. The owner stops passing
// in records when there are TurnInputs of them.
func (c *Core[E, C]) Waiting(input int) int { return len(c.pending[input]) }

// Completed passes in completions of effects.
func (c *Core[E, C]) Completed(completions ...C) {
	c.completions = append(c.completions, completions...)
}

// Start takes the first turn, which has neither inputs nor completions.
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

// TurnSize counts the inputs and completions of a turn.
type TurnSize struct{ Inputs, Completions int }

// Decide takes a turn with the inputs and completions that have arrived. Inputs that the handler
// leaves stay for the next turn.
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

// decided checks the turn's decisions, and moves on to writing them.
func (c *Core[E, C]) decided() error {
	facts := 0
	for _, r := range c.turn.out {
		if r.Topic == c.cfg.Journal {
			facts++
		}
	}
	if facts > TurnFacts {
		return fmt.Errorf("streams: a turn wrote %d records to the journal, and %d are allowed", facts,
			TurnFacts)
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

// Apply commits the state that the turn has folded, with its progress, and returns the effects to
// start. now is later than the turn's own time, because a commit lies in between. owned says
// whether the group recently acknowledged that this process owns the partition.
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
	if whole { // retention may delete up to the previous snapshot: no state may end before it
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

// commitState commits a batch of state, with the journal checkpoint if it advanced.
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

// Drain asks the core to end when the effects in flight have completed, or after DrainTimeout.
func (c *Core[E, C]) Drain(now kafka.Moment) {
	c.draining, c.drainUntil = true, now.SteadyMillis+c.cfg.DrainTimeout.Milliseconds()
	if c.handler != nil {
		c.handler.Drain()
	}
}

// Failed reports that an action failed, and returns its error. If aborted records may have been
// folded, it marks the state to be rebuilt at the next start. If a record of a snapshot was being
// written, it pauses snapshots for a while.
func (c *Core[E, C]) Failed(err error, now kafka.Moment) error {
	c.failedSnapshot(err, now)
	if errors.Is(err, kafka.ErrAborted) && !c.Working() && c.store != nil {
		return errors.Join(err, c.store.Distrust())
	}
	return err
}

// Working reports whether the start is complete: the state is restored, the first turn is applied,
// and the positions of the inputs are known.
func (c *Core[E, C]) Working() bool { return c.working }

// Store returns the state, for reading committed data; nil before it is open.
func (c *Core[E, C]) Store() *store.Store { return c.store }

// Timers returns the timer index; nil before the first turn.
func (c *Core[E, C]) Timers() *store.TimerIndex { return c.timers }

// Folded returns the offset of the next journal record to fold.
func (c *Core[E, C]) Folded() int64 { return c.progress.next }

// FoldedOf returns how much of its journal the state has folded, as far as that is known. A member
// reports it for its copy. It may be too high: the journal may have been truncated or recreated
// since.
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
