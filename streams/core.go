package streams

import (
	"errors"
	"fmt"
	"slices"
)

// Handler is what a task runs: the fold and the decisions of the part above.
// Its methods are called by one goroutine only.
type Handler interface {
	// Fold changes the state as a committed record of the journal says. It must
	// give the same state for the same records, whoever folds them and when.
	Fold(batch *Batch, r Record) error
	// Start is the first turn after a restore. It is given the journal's latest
	// records, which hold at least the last transaction, so that what else that
	// transaction wrote can be written again if a crash tore it.
	Start(t *Turn, latest []Record) error
	// Turn decides on inputs. It folds what it appends to the journal itself, so
	// that later inputs of the turn see it.
	Turn(t *Turn) error
	// Flush writes what Fold, Start and Turn have kept back in memory. It is the
	// last that happens before a batch of state is committed.
	Flush(batch *Batch) error
	// Settled starts effects: what the turn wrote is committed. It is also called
	// when time has passed without inputs. It answers when to call again at the
	// latest if no input comes, in Unix milliseconds. It is given the time at which
	// effects start.
	Settled(nowMillis int64) (wakeMillis int64, err error)
	// Drain asks that no further effects are started.
	Drain()
	// Busy tells whether effects are under way whose outcome is to come.
	Busy() bool
}

// Turn is one batch of inputs and what was decided on it.
type Turn struct {
	NowMillis int64
	Batch     *Batch
	// Inputs are records by topic, in the order of TaskConfig.Inputs. A handler
	// that leaves some for the next turn cuts them off here.
	Inputs [][]Record
	Locals []any // what Task.Submit gave

	partition int32
	out       []Record
	positions map[string]int64
	keep      bool
	stats     TurnStats
}

// KeepPositions has the turn write its input positions even if it writes nothing
// else.
func (t *Turn) KeepPositions() { t.keep = true }

// Positions are where the inputs go on behind the turn, by topic; nil before they
// are known.
func (t *Turn) Positions() map[string]int64 { return t.positions }

// Append adds a record to the turn's transaction. It goes to the task's
// partition of its topic.
func (t *Turn) Append(r Record) { t.AppendTo(t.partition, r) }

// AppendTo is Append to another task's partition. It must be a topic that tasks
// take from: no task reads what it has of others back.
func (t *Turn) AppendTo(partition int32, r Record) {
	r.Partition = partition
	t.out = append(t.out, r)
}

// Out are the records of the turn's transaction.
func (t *Turn) Out() []Record { return t.out }

// CoreConfig says what a core keeps.
type CoreConfig struct {
	Journal    string // the topic that the state is folded from
	Partition  int32
	Inputs     []string // topics, in the order in which turns take them
	Store      StoreConfig
	NewHandler func(*Core) Handler
	// Submit gives the core's owner an outcome of an effect, from any goroutine.
	Submit func(outcome any)
}

// Core is a task without its log: state, timers and handler. It has no
// goroutine, no clock and no network, so that a simulation can work it. Its
// owner reads the journal, gives it inputs, commits what it decides, and tells
// it so.
type Core struct {
	cfg     CoreConfig
	store   *Store
	timers  *TimerIndex
	handler Handler
	next    int64 // offset of the journal that is not folded yet
	mark    bookmark
	taken   inputPositions
	noted   string // the positions that the journal has
	restore *Batch
	folded  int
}

// OpenCore opens the state. What the journal has beyond it is folded next, with
// Fold, and then Ready is called.
func OpenCore(cfg CoreConfig) (*Core, error) {
	store, err := OpenStore(cfg.Store)
	if err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, store: store}
	c.handler = cfg.NewHandler(c)
	if err := c.load(); err != nil {
		_ = store.Close()
		return nil, err
	}
	return c, nil
}

// load takes up what the state says of itself.
func (c *Core) load() (err error) {
	if c.next, err = c.store.Checkpoint(c.cfg.Journal, c.cfg.Partition); err != nil {
		return err
	}
	if c.mark, err = loadBookmark(c.store); err != nil {
		return err
	}
	return c.loadPositions()
}

// Close closes the state.
func (c *Core) Close() error {
	if c.restore != nil {
		c.restore.Discard()
	}
	return c.store.Close()
}

// Timers is the timer index. It may be used in Handler's methods only.
func (c *Core) Timers() *TimerIndex { return c.timers }

// Store is the state, for reads of what is committed.
func (c *Core) Store() *Store { return c.store }

// Submit gives the core's owner an outcome, from any goroutine.
func (c *Core) Submit(outcome any) { c.cfg.Submit(outcome) }

// Next is the offset of the journal up to which the state is folded.
func (c *Core) Next() int64 { return c.next }

// readFrom is where the journal is read from, so that the state's last fact is among
// what is read.
func (c *Core) readFrom() int64 {
	if c.mark.known {
		return min(c.next, c.mark.offset)
	}
	return c.next
}

// Reset empties the state: the journal is to be folded from its beginning.
func (c *Core) Reset() error {
	c.next, c.mark, c.taken, c.noted = 0, bookmark{}, nil, ""
	if c.restore != nil {
		c.restore.Discard()
		c.restore, c.folded = nil, 0
	}
	return c.store.Reset()
}

// Distrust says that the state was folded from what is not in the journal: it is
// empty when it is opened the next time.
func (c *Core) Distrust() error { return c.store.Distrust() }

// restoreBatch is how many records are folded into one batch of state.
const restoreBatch = 4096

// Fold folds a record of the journal, unless it is folded already.
func (c *Core) Fold(r Record) error {
	if r.Offset < c.next {
		return nil
	}
	if c.restore == nil {
		c.restore = c.store.Begin()
	}
	err := c.foldPositions(r)
	if err == nil && !isNote(r) {
		err = c.handler.Fold(c.restore, r)
	}
	if err != nil {
		return fmt.Errorf("streams: folding record %d of %s: %w", r.Offset, c.cfg.Journal, err)
	}
	if !isNote(r) {
		c.mark = bookmarkOf(r.Offset, r)
	}
	c.next = r.Offset + 1
	if c.folded++; c.folded < restoreBatch {
		return nil
	}
	return c.commitRestored()
}

func (c *Core) commitRestored() error {
	batch := c.restore
	if batch == nil {
		return nil
	}
	c.restore, c.folded = nil, 0
	return c.commitState(batch)
}

// commitState writes a batch of state that reaches up to the next offset.
func (c *Core) commitState(batch *Batch) error {
	if err := c.handler.Flush(batch); err != nil {
		batch.Discard()
		return err
	}
	if err := errors.Join(
		batch.SetCheckpoint(c.cfg.Journal, c.cfg.Partition, c.next), c.mark.set(batch),
		c.keepPositions(batch),
	); err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}

// Ready ends the restore and gives the first turn, which the handler has
// decided on. Latest are the last records of the journal.
func (c *Core) Ready(nowMillis int64, latest []Record) (*Turn, error) {
	if err := c.commitRestored(); err != nil {
		return nil, err
	}
	var err error
	if c.timers, err = newTimerIndex(c.store); err != nil {
		return nil, err
	}
	t := c.Begin(nowMillis)
	if err := c.handler.Start(t, slices.DeleteFunc(slices.Clone(latest), isNote)); err != nil {
		t.Batch.Discard()
		return nil, err
	}
	return t, nil
}

// Begin opens a turn.
func (c *Core) Begin(nowMillis int64) *Turn {
	return &Turn{NowMillis: nowMillis, Batch: c.store.Begin(), partition: c.cfg.Partition}
}

// Decide lets the handler decide on a turn's inputs.
func (c *Core) Decide(t *Turn) error {
	if err := c.handler.Turn(t); err != nil {
		t.Batch.Discard()
		return err
	}
	c.take(t)
	return nil
}

// Settle takes note that a turn's records are committed, folds them into the
// state, and starts effects. Next is the offset behind the journal's records of
// the turn; 0 when it had none. NowMillis is read anew: a commit lies between the
// turn's own time and its effects.
func (c *Core) Settle(t *Turn, next, nowMillis int64) (wakeMillis int64, err error) {
	c.next = max(c.next, next)
	c.markTurn(t, next)
	if err := c.commitTurn(t, next); err != nil {
		return 0, err
	}
	c.timers.apply(t.Batch)
	return c.handler.Settled(nowMillis)
}

// markTurn moves the bookmark to the last record that a turn wrote to the journal,
// which is a fact if the turn wrote any.
func (c *Core) markTurn(t *Turn, next int64) {
	for _, r := range slices.Backward(t.out) {
		if r.Topic != c.cfg.Journal {
			continue
		}
		if !isNote(r) {
			c.mark = bookmarkOf(next-1, r)
		}
		return
	}
}

func (c *Core) commitTurn(t *Turn, next int64) error {
	if next > 0 {
		return c.commitState(t.Batch)
	}
	if err := errors.Join(c.handler.Flush(t.Batch), c.keepPositions(t.Batch)); err != nil {
		t.Batch.Discard()
		return err
	}
	return t.Batch.Commit()
}
