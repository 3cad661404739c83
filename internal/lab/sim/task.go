package sim

import (
	"errors"
	"math"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/task"
)

// engineTask is a partition on a process. The simulation drives its task.Core. Each of its actions
// is a separate step, and a commit takes two, so that anything may happen in between. If a task
// fails, another one follows after a delay.
type engineTask struct {
	process   *engineProcess
	partition int32
	restarts  *task.Restarts
	again     bool  // it isn't the first task
	until     int64 // earliest start, by the steady clock
	core      *core // nil before it starts
	action    task.Action
	written   bool             // the action's records are written but not committed
	next      map[string]int64 // offsets after the last records written, by topic
	begun     bool             // the owner's own record is committed
	restored  bool             // from a snapshot, or from the remaining records without one
	ended     bool
	draining  bool
	epoch     int
	since     int // number of takeovers of the partition, including this one
	consumed  map[topicPartition]int64
	arrived   []engine.Outcome // not passed to the core yet
	wakeAt    int64            // by the wall clock
	drained   int64            // by the steady clock

	// For checkers: attempts by event, from dispatch to the turn that takes the outcome.
	under   map[string]underWay
	good    map[string]bool // endpoints whose latest outcome was a success
	enabled bool            // the turn enables an endpoint
	// Tests that the task has created but not sent, with the number of turns they have waited while
	// their endpoint was not active.
	tests  map[deliveryID]int
	usedUp bool // the turn used up a rate limit
	// Since when an endpoint's due deliveries have waited for its limit, by the steady clock.
	limited   map[string]int64
	taken     []engine.Outcome // outcomes taken by the turn
	nowMillis int64            // of the turn being applied
}

type core = task.Core[engine.Effect, engine.Outcome]

type underWay struct {
	endpoint string
	number   int
	probing  bool
	urgent   bool // a client waits for it
}

func (t *engineTask) journal() topicPartition {
	return topicPartition{schemas.TopicJournal, t.partition}
}

func (t *engineTask) snapshots() topicPartition {
	return topicPartition{schemas.TopicSnapshots, t.partition}
}

func (t *engineTask) idle() bool {
	_, waits := t.action.(task.Await)
	return waits
}

func (t *engineTask) ready() bool {
	w := t.process.world
	if t.core == nil {
		return t.draining || t.mayBegin()
	}
	switch a := t.action.(type) {
	case task.ReadSnapshots:
		return w.log.stable(t.snapshots()) > a.From
	case task.ReadJournal:
		return w.log.stable(t.journal()) > a.From
	case task.Await:
		return len(t.arrived) > 0 || w.wall() >= t.wakeAt || w.steady >= t.drained ||
			a.Inputs && t.hasInput()
	default:
		return true
	}
}

// mayBegin reports whether the task may start according to task.Tasks. A partition's first task may
// only start while its process is a working member (docs/simulation.md).
func (t *engineTask) mayBegin() bool {
	w := t.process.world
	if w.steady < t.until {
		return false
	}
	ours := t.process.ours()
	wait := t.restarts.Wait(w.steady, ours)
	t.until = w.steady + wait
	return wait == 0 && (ours || t.again)
}

func (t *engineTask) hasInput() bool {
	w := t.process.world
	for _, topic := range engine.Inputs() {
		at := topicPartition{topic, t.partition}
		if records, _ := w.log.read(at, t.consumed[at], 1); len(records) > 0 {
			return true
		}
	}
	return false
}

func (t *engineTask) work() {
	switch {
	case t.core == nil && t.draining:
		t.leave()
		return
	case t.core == nil:
		t.restarts.Began(t.process.world.steady)
		t.loseState()
		t.core, t.good, t.tests = t.open(), make(map[string]bool), make(map[deliveryID]int)
		t.proceed()
	case t.idle():
		t.proceed() // time has passed, so it may be done
	}
	if err := t.perform(); err != nil {
		t.fail(t.core.Failed(err, t.process.world.moment()))
	} else if !t.ended && !t.written {
		t.proceed()
	}
}

func (t *engineTask) proceed() {
	t.action = t.core.Next(t.process.world.moment())
	if a, waits := t.action.(task.Await); waits {
		t.wakeAt, t.drained = a.WallMillis, a.SteadyMillis
	}
}

func (t *engineTask) perform() error {
	w := t.process.world
	switch a := t.action.(type) {
	case task.TakeOver:
		t.takeOver()
	case task.LocateJournal:
		t.locateJournal()
	case task.LocateSnapshots:
		t.must(t.core.LocatedSnapshots(w.log.bounds(t.snapshots())))
	case task.ReadSnapshots:
		return t.readSnapshots(a)
	case task.ReadJournal:
		return t.readJournal(a)
	case task.Commit:
		if !t.written {
			return t.produce(a)
		}
		return t.commit()
	case task.Apply:
		return t.apply()
	case task.LocateInputs:
		t.locateInputs()
	case task.Start:
		t.start()
	case task.Await:
		t.decide(a)
	case task.Done:
		t.leave()
	}
	return nil
}

func (t *engineTask) must(err error) {
	if err != nil {
		t.process.world.violate("G4: the core of partition %d: %v", t.partition, err)
	}
}

func (t *engineTask) takeOver() {
	w := t.process.world
	t.epoch = w.log.takeOver(txnID(t.partition))
	w.owned[t.partition] = append(w.owned[t.partition], t.process)
	t.since = len(w.owned[t.partition])
	w.tracef("engine %d takes partition %d over, epoch %d", t.process.id, t.partition, t.epoch)
	t.must(t.core.OpenState())
}

// locateJournal reports the end of the journal. Sometimes it is too low, as from a broker that has
// lost its leadership without noticing.
func (t *engineTask) locateJournal() {
	w := t.process.world
	known := w.log.end(t.journal())
	if w.log.stable(t.journal()) < known && w.checks.owns(t) {
		w.violate("the journal of partition %d has undecided records after taking over", t.partition)
	}
	if at := t.core.Folded(); at > known {
		w.violate("G4: the state of partition %d reaches %d and its journal %d", t.partition, at, known)
	}
	w.count("restores")
	t.must(t.core.LocatedJournal(w.bounds(t.journal())))
}

// bounds returns the start and end of a journal. The end may be an earlier one.
func (w *World) bounds(journal topicPartition) (start, end int64) {
	start, end = w.log.bounds(journal)
	if w.fault(0.1) {
		w.count("ends that were stale")
		end = start + w.rnd.Int64N(end-start+1)
	}
	return start, end
}

func (t *engineTask) readJournal(a task.ReadJournal) error {
	w := t.process.world
	most := math.MaxInt
	if w.chance(0.3) {
		most = 1 + w.rnd.IntN(64)
	}
	records, next, err := w.log.readUpTo(t.journal(), a.From, a.To, most)
	if err != nil {
		return err
	}
	t.must(t.core.ReadJournal(records, next))
	return nil
}

func (t *engineTask) produce(a task.Commit) (err error) {
	w := t.process.world
	positions := make(map[topicPartition]int64)
	for topic, offset := range a.Positions {
		positions[topicPartition{topic, t.partition}] = offset
	}
	t.next, err = w.log.produce(txnID(t.partition), t.epoch, a.Records, positions, w.steady)
	if err != nil {
		return err
	}
	w.tracef("partition %d writes %d records", t.partition, len(a.Records))
	t.written = true
	return nil
}

var errUnknown = errors.New("sim: the answer to the commit did not come")

// commit decides a transaction, unless it is interrupted.
func (t *engineTask) commit() error {
	w := t.process.world
	id := txnID(t.partition)
	t.written = false
	if w.fault(0.02) {
		w.count("commits that failed")
		return errUnknown
	}
	if err := w.log.decide(id, t.epoch); err != nil {
		return err
	}
	if w.chance(0.5) {
		for w.log.markNext(w.log.producers[id]) {
		}
	}
	w.tracef("partition %d commits", t.partition)
	if w.fault(0.02) {
		w.count("commits whose answer was lost")
		return errUnknown
	}
	t.begun = true
	t.must(t.core.Committed(t.next, w.moment()))
	return nil
}

// apply applies the turn and starts effects. The process may die before or after an attempt starts.
func (t *engineTask) apply() error {
	w := t.process.world
	if t.taken != nil {
		t.process.recorded(t.partition, t.taken)
		w.checks.checkOutcomes(t)
	}
	t.nowMillis = w.wall()
	effects, err := t.core.Apply(w.moment(), t.process.ours())
	t.must(err)
	w.count("turns")
	dies, before := -1, false
	if w.fault(0.03) {
		dies, before = 1+w.rnd.IntN(2), w.chance(0.5)
	}
	for _, e := range effects {
		if _, begins := e.(engine.Begin); begins {
			dies--
		}
		if dies == 0 && before {
			w.count("crashes before a dispatch")
			t.process.crash()
			return nil
		}
		t.process.flights[t.partition].Perform(e)
		if dies == 0 {
			w.count("crashes after a dispatch")
			t.process.crash()
			return nil
		}
	}
	return t.applied()
}

// applied checks the conditions after a turn, and injects faults where they do most harm.
func (t *engineTask) applied() error {
	w := t.process.world
	w.checks.checkDue(t, t.nowMillis)
	w.checks.checkTests(t)
	if hit := w.chance(0.3); hit && t.enabled && w.setup.faults > 0 && !w.calm {
		w.note("crashes after an enabling", "engine %d dies with much to do", t.process.id)
		t.process.crash()
		return nil
	}
	back := w.chance(0.5)
	if back && t.usedUp && w.setup.jumps && w.setup.faults > 0 && !w.calm {
		w.moveClock(-1 - w.rnd.Int64N(6*hourMillis))
		t.wakeAt = w.wall() // the limit is checked again within a second
	} else if hit := w.chance(0.9); hit && t.usedUp && w.setup.faults > 0 && !w.calm {
		w.count("failed tasks behind a limit")
		return errors.New("it fails when a rate limit is used up")
	}
	t.enabled, t.usedUp = false, false
	return nil
}

func (t *engineTask) locateInputs() {
	w := t.process.world
	if p := w.log.producers[txnID(t.partition)]; p.epoch == t.epoch && p.txn != nil && p.txn.decided {
		w.log.resolve(p) // positions are read until they are stable
	}
	group, ends := make(map[string]int64), make(map[string]int64)
	for _, topic := range engine.Inputs() {
		at := topicPartition{topic, t.partition}
		ends[topic] = w.log.end(at)
		if offset, known := w.log.positions[at]; known {
			group[topic] = offset
		}
	}
	from, err := t.core.LocatedInputs(group, ends)
	t.must(err)
	t.consumed = make(map[topicPartition]int64)
	for _, topic := range engine.Inputs() {
		t.consumed[topicPartition{topic, t.partition}] = from[topic]
	}
	if t.restored {
		t.restored = false
		w.count("states loaded from a snapshot")
		if w.checks.owns(t) { // otherwise the journal is ahead of a paused owner's state
			w.verifyTask(t)
		}
	}
}

func (t *engineTask) start() {
	t.under = t.process.carried(t.partition)
	t.must(t.core.Start(t.process.world.moment()))
}

// decide passes some of the arrived records to the core, and makes it take a turn.
func (t *engineTask) decide(a task.Await) {
	w := t.process.world
	for i, topic := range engine.Inputs() {
		if a.Inputs {
			at := topicPartition{topic, t.partition}
			records, _ := w.log.read(at, t.consumed[at], 1+w.rnd.IntN(8))
			t.core.Arrived(i, records)
			if n := len(records); n > 0 {
				t.consumed[at] = records[n-1].Offset + 1
			}
		}
	}
	n := min(len(t.arrived), 1+w.rnd.IntN(8))
	t.core.Completed(t.arrived[:n]...)
	t.take(t.arrived[:n])
	t.arrived = t.arrived[n:]
	_, err := t.core.Decide(w.moment())
	t.must(err)
}

// take records which of the expected outcomes the turn takes.
func (t *engineTask) take(outcomes []engine.Outcome) {
	for _, o := range outcomes {
		if u, is := t.under[o.Attempt.EventID]; is && u.number == o.Attempt.Number {
			t.taken = append(t.taken, o)
			delete(t.under, o.Attempt.EventID)
			t.good[o.Attempt.EndpointID] = o.Result.Succeeded()
		}
	}
}

// fail ends the task as an error does. Another one starts a little later.
func (t *engineTask) fail(err error) {
	w := t.process.world
	w.note("failed tasks", "partition %d on engine %d fails: %v", t.partition, t.process.id, err)
	if errors.Is(err, errFenced) {
		w.count("fenced writes")
	}
	t.end()
	t.process.drop(t)
	if t.draining {
		return
	}
	t.restarts.Failed(w.steady)
	t.process.tasks = append(t.process.tasks, &engineTask{
		process:   t.process,
		partition: t.partition,
		restarts:  t.restarts,
		again:     true,
		until:     w.steady + t.restarts.Wait(w.steady, true),
	})
}

// revoke makes the task end once its attempts in flight have ended.
func (t *engineTask) revoke() {
	t.draining = true
	if t.core != nil {
		t.core.Drain(t.process.world.moment())
		t.proceed()
	}
}

func (t *engineTask) leave() {
	t.process.world.tracef("engine %d gives partition %d up", t.process.id, t.partition)
	t.end()
	t.process.drop(t)
}

// end closes the task's state as it is.
func (t *engineTask) end() {
	t.ended = true
	if t.core == nil {
		return
	}
	if err := t.core.Close(); err != nil {
		t.process.world.violate("closing the state of partition %d: %v", t.partition, err)
	}
}
