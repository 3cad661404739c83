package sim

import (
	"errors"
	"math"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// task is streams.Task, taken apart: each stage is a step of its own, so that
// anything may happen between two of them.
type task struct {
	process   *engineProcess
	partition int32
	stage     stage
	ended     bool
	epoch     int
	since     int // how often the partition had been taken over, this time included
	core      *streams.Core
	handler   streams.Handler
	turn      *streams.Turn
	next      int64 // behind what was last written to the journal
	from      int64 // of the journal, to be folded next
	latest    []streams.Record
	started   bool
	locals    []any
	consumed  map[place]int64
	wakeAt    int64 // by the wall clock
	backoff   int64 // by the steady clock

	draining   bool
	drainUntil int64

	// attempts by event, from dispatch to the turn that takes the outcome
	under   map[string]underWay
	good    map[string]bool // endpoints whose latest outcome was a success
	enabled bool            // the turn enables an endpoint
	// that the task made and did not send yet, and turns that they waited while not active
	tests  map[deliveryID]int
	usedUp bool // the turn began all that a rate limit lets through
	// since when what is due to an endpoint waits for its limit, by the steady clock
	limited    map[string]int64
	outcomes   []*flight // delivered, not taken yet
	taken      []*flight // by the turn
	nowMillis  int64     // of the turn that is settled
	dispatched int
	dieBefore  int
	dieAfter   int
}

type underWay struct {
	endpoint string
	doubtful bool
	urgent   bool // somebody waits for it
}

type stage int

const (
	fencing stage = iota
	restoring
	catchingUp
	producing
	ending
	settling
	positioning
	idle
	backingOff
)

const (
	// turnRecords is more than a turn of a simulation writes (streams.TurnFacts is
	// the real one).
	turnRecords = 512
	// latestOffsets is how much of the journal a start reads again: a turn, and what
	// 64 owners wrote since that came no further than their start records.
	latestOffsets = turnRecords + 2*64
)

// ready tells whether there is something to do.
func (t *task) ready() bool {
	w := t.process.world
	switch t.stage {
	case fencing:
		return t.process.ours()
	case backingOff:
		return t.backoff <= w.steady && t.process.ours() // streams.Tasks.Ours
	case restoring:
		at := place{schemas.TopicJournal, t.partition}
		return w.checks.owns(t) || w.log.stable(at) == w.log.end(at)
	case catchingUp:
		return w.log.stable(place{schemas.TopicJournal, t.partition}) >= t.next
	case idle:
		return len(t.locals) > 0 || w.wall() >= t.wakeAt && !t.draining || t.draining && t.drained() ||
			!t.draining && t.hasInput()
	}
	return true
}

func (t *task) drained() bool {
	return !t.handler.Busy() || t.process.world.steady >= t.drainUntil
}

func (t *task) hasInput() bool {
	w := t.process.world
	for _, topic := range engine.Inputs() {
		at := place{topic, t.partition}
		if records, _ := w.log.read(at, t.consumed[at], 1); len(records) > 0 {
			return true
		}
	}
	return false
}

// work does one stage.
func (t *task) work() {
	w := t.process.world
	switch t.stage {
	case fencing, backingOff:
		if t.draining {
			t.leave()
			return
		}
		t.epoch = w.log.takeOver(txnID(t.partition))
		w.owned[t.partition] = append(w.owned[t.partition], t.process)
		t.since = len(w.owned[t.partition])
		w.tracef("engine %d takes partition %d over, epoch %d", t.process.id, t.partition, t.epoch)
		t.stage = restoring
	case restoring:
		t.restore()
	case catchingUp:
		t.catchUp()
	case producing:
		t.produce()
	case ending:
		t.commit()
	case settling:
		t.settle()
	case positioning:
		t.position()
	case idle:
		t.decide()
	}
}

// restore opens the state, folds what is known of the journal, and writes the
// record with which an owner begins: streams.Task.restore. What is known may end too
// early: it is what a broker says that may have lost the lead unawares.
func (t *task) restore() {
	w := t.process.world
	at := place{schemas.TopicJournal, t.partition}
	end := w.log.end(at)
	if w.log.stable(at) < end {
		if w.checks.owns(t) {
			w.violate("the journal of partition %d has undecided records after taking over", t.partition)
		}
		return // a former owner reads until what the next one has open is decided
	}
	w.count("restores")
	core, err := t.open()
	if err != nil {
		w.violate("the state of partition %d cannot be opened: %v", t.partition, err)
	}
	t.core, t.good, t.tests = core, make(map[string]bool), make(map[deliveryID]int)
	if core.Next() > end {
		w.violate("G4: the state of partition %d reaches %d and its journal %d", t.partition, core.Next(),
			end)
	}
	known := end
	if w.fault(0.1) {
		w.count("ends that were stale")
		known = w.rnd.Int64N(end + 1)
	}
	t.from = max(0, min(core.Next(), known-latestOffsets))
	if w.bug == SkipFold {
		t.from = end
	}
	t.foldTo(known)
	begin := []streams.Record{streams.StartRecord(at.topic, at.partition)}
	t.next, err = w.log.produce(txnID(t.partition), t.epoch, begin, nil, w.steady)
	if err != nil {
		t.fail(err)
		return
	}
	w.tracef("partition %d is folded to %d and begun at %d", t.partition, known, t.next-1)
	t.stage = ending
}

// catchUp folds what lies before the owner's own record, and takes the first turn.
func (t *task) catchUp() {
	w := t.process.world
	if w.bug != TrustEnd {
		t.foldTo(t.next)
	}
	t.under = t.process.carried(t.partition)
	var err error
	if t.turn, err = t.core.Ready(w.wall(), t.latest); err != nil {
		w.violate("starting partition %d: %v", t.partition, err)
	}
	t.latest, t.stage = nil, producing
}

// foldTo folds the journal up to an offset.
func (t *task) foldTo(end int64) {
	w := t.process.world
	records, _ := w.log.read(place{schemas.TopicJournal, t.partition}, t.from, math.MaxInt)
	for _, r := range records {
		if r.Offset >= end {
			break
		}
		t.latest = append(t.latest, r)
		if err := t.core.Fold(r); err != nil {
			w.violate("G4: %v", err)
		}
	}
	t.from = max(t.from, end)
}

// produce writes the turn's records, undecided.
func (t *task) produce() {
	w := t.process.world
	if len(t.turn.Out()) == 0 {
		t.next, t.stage = 0, settling
		return
	}
	if n := len(t.turn.Out()); n >= turnRecords {
		w.violate("a turn of partition %d writes %d records, more than a start reads again", t.partition,
			n)
	}
	positions := make(map[place]int64)
	for topic, offset := range t.turn.Positions() {
		positions[place{topic, t.partition}] = offset
	}
	out := t.turn.Out()
	if w.bug == StaleRow {
		out = spoil(out)
	}
	next, err := w.log.produce(txnID(t.partition), t.epoch, out, positions, w.steady)
	if err != nil {
		t.fail(err)
		return
	}
	w.tellEarly(t)
	w.tracef("partition %d writes %d records", t.partition, len(t.turn.Out()))
	t.next, t.stage = next, ending
}

var errUnknown = errors.New("sim: the answer to the commit did not come")

// tears reports whether the commit is torn: far more often when it hands events
// over, which is rare, and of which both parts count.
func (t *task) tears() bool {
	w := t.process.world
	handsOver := t.turn != nil &&
		slices.ContainsFunc(t.turn.Out(),
			func(r streams.Record) bool { return r.Topic == schemas.TopicMatches })
	if hit := w.chance(0.5); hit && handsOver && w.setup.faults > 0 && !w.calm {
		w.count("torn hand-overs")
		return true
	}
	return w.fault(0.04)
}

// commit decides the transaction of a turn or of the beginning, unless something
// comes between.
func (t *task) commit() {
	w := t.process.world
	id := txnID(t.partition)
	switch {
	case w.setup.embedded && t.tears():
		stands := make(map[place]bool)
		tornErr := w.log.tear(id, t.epoch, func(at place) bool {
			stands[at] = w.chance(0.5)
			return stands[at]
		})
		if tornErr != nil {
			t.fail(tornErr)
			return
		}
		for _, topic := range schemas.Topics() {
			for p := range w.setup.partitions {
				if at := (place{topic.Name, p}); stands[at] {
					w.tracef("torn off: %s/%d stands", at.topic, at.partition)
				}
			}
		}
		w.tracef("everything is killed during the commit of partition %d", t.partition)
		w.count("torn commits")
		w.torn[t.partition] = true
		w.killEverything()
		return
	case w.fault(0.02):
		w.count("commits that failed")
		t.fail(errUnknown)
		return
	}
	if err := w.log.decide(id, t.epoch); err != nil {
		t.fail(err)
		return
	}
	if w.setup.embedded || w.chance(0.5) {
		for w.log.markNext(w.log.producers[id]) {
		}
	}
	w.tracef("partition %d commits", t.partition)
	if w.fault(0.02) {
		w.count("commits whose answer was lost")
		t.fail(errUnknown)
		return
	}
	if t.stage = settling; t.turn == nil {
		t.stage = catchingUp
	}
}

// settle writes the state and starts effects.
func (t *task) settle() {
	w := t.process.world
	if t.taken != nil {
		t.process.recorded(t.partition, t.taken)
		w.checks.outcomesTaken(t)
	}
	t.dispatched, t.dieBefore, t.dieAfter = 0, 0, 0
	if w.fault(0.03) {
		if t.dieBefore = 1 + w.rnd.IntN(2); w.chance(0.5) {
			t.dieBefore, t.dieAfter = 0, t.dieBefore
		}
	}
	turn := t.turn
	t.turn, t.nowMillis = nil, w.wall()
	wakeAt, err := t.core.Settle(turn, t.next, t.nowMillis)
	if err != nil {
		w.violate("settling a turn of partition %d: %v", t.partition, err)
	}
	w.count("turns")
	if t.process.dying {
		w.tracef("engine %d dies between two attempts", t.process.id)
		t.process.crash()
		return
	}
	w.plant(t)
	w.checks.settled(t, t.nowMillis)
	w.checks.testsAnswered(t)
	if hit := w.chance(0.3); hit && t.enabled && w.setup.faults > 0 && !w.calm {
		w.tracef("engine %d dies with much to do", t.process.id)
		w.count("crashes after an enabling")
		t.process.crash()
		return
	}
	if hit := w.chance(0.6); hit && t.usedUp && w.setup.faults > 0 && !w.calm {
		w.count("failed tasks behind a limit")
		t.fail(errors.New("it fails when a rate limit is used up"))
		return
	}
	t.enabled, t.usedUp = false, false
	t.wakeAt = wakeAt
	if t.stage = idle; !t.started {
		t.stage = positioning
	}
	if t.draining && (!t.started || t.drained()) {
		t.leave() // what is being restored has nothing to drain
	}
}

// position reads where the inputs go on.
func (t *task) position() {
	w := t.process.world
	t.consumed = make(map[place]int64)
	if p := w.log.producers[txnID(t.partition)]; p.epoch == t.epoch && p.txn != nil && p.txn.decided {
		w.log.resolve(p) // positions are asked for until they are stable
	}
	group, ends := make(map[string]int64), make(map[string]int64)
	for _, topic := range engine.Inputs() {
		at := place{topic, t.partition}
		ends[topic] = w.log.end(at)
		if offset, known := w.log.positions[at]; known {
			group[topic] = offset
		}
	}
	from, err := t.core.Resume(group, ends)
	if err != nil {
		w.violate("partition %d: %v", t.partition, err)
	}
	if w.bug == GroupPositions {
		from = group
	}
	for _, topic := range engine.Inputs() {
		t.consumed[place{topic, t.partition}] = from[topic]
	}
	t.started, t.stage, t.wakeAt = true, idle, 0
	if w.torn[t.partition] {
		delete(w.torn, t.partition)
		w.verifyRows(t.partition)
	}
	if t.draining {
		t.handler.Drain()
	}
}

// decide takes a turn.
func (t *task) decide() {
	w := t.process.world
	if t.draining && t.drained() && len(t.locals) == 0 {
		t.leave()
		return
	}
	turn := t.core.Begin(w.wall())
	turn.Inputs = make([][]streams.Record, len(engine.Inputs()))
	for i, topic := range engine.Inputs() {
		if !t.draining {
			at := place{topic, t.partition}
			turn.Inputs[i], _ = w.log.read(at, t.consumed[at], 1+w.rnd.IntN(8))
		}
	}
	n := min(len(t.locals), 1+w.rnd.IntN(8))
	turn.Locals, t.locals = t.locals[:n:n], t.locals[n:]
	t.take(n)
	if w.bug == ForgetDedup {
		w.forgetDedup(t, turn)
	}
	if err := t.core.Decide(turn); err != nil {
		w.violate("partition %d cannot decide: %v", t.partition, err)
	}
	for i, topic := range engine.Inputs() {
		if n := len(turn.Inputs[i]); n > 0 {
			t.consumed[place{topic, t.partition}] = turn.Inputs[i][n-1].Offset + 1
		}
	}
	t.turn, t.stage = turn, producing
}

// take notes which outcomes the turn has.
func (t *task) take(n int) {
	t.taken, t.outcomes = t.outcomes[:n:n], t.outcomes[n:]
	for _, f := range t.taken {
		delete(t.under, f.attempt.EventID)
		t.good[f.attempt.EndpointID] = f.result.Succeeded()
	}
}

// fail ends the task as an error does; it is started again a little later.
func (t *task) fail(err error) {
	w := t.process.world
	w.tracef("partition %d on engine %d fails: %v", t.partition, t.process.id, err)
	w.count("failed tasks")
	if errors.Is(err, errFenced) {
		w.count("fenced writes")
	}
	t.end()
	t.process.drop(t)
	if t.draining {
		return
	}
	t.process.tasks = append(t.process.tasks,
		&task{process: t.process, partition: t.partition, stage: backingOff, backoff: w.steady + 100})
}

// revoke asks the task to end when what is under way has ended.
func (t *task) revoke() {
	t.draining, t.drainUntil = true, t.process.world.steady+drainMillis
	if t.started {
		t.handler.Drain()
	}
}

func (t *task) leave() {
	t.process.world.tracef("engine %d gives partition %d up", t.process.id, t.partition)
	t.end()
	t.process.drop(t)
}

// end closes the task's state as it stands.
func (t *task) end() {
	t.ended = true
	if t.core == nil {
		return
	}
	if t.turn != nil {
		t.turn.Batch.Discard()
		t.turn = nil
	}
	if err := t.core.Close(); err != nil {
		t.process.world.violate("closing the state of partition %d: %v", t.partition, err)
	}
	t.core = nil
}
