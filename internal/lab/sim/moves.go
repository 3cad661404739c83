package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// A move takes the deployment to topics with another partition count, as lumenhook repartition
// does: package transfer reads the old log and fills the new one, on which everything then starts.
// Processes that hung in the meantime resume while the copy is made, and must be rejected.

// movesDrawn returns the steps in which a run moves. Most runs have none. They are drawn
// independently of the other settings.
func movesDrawn(seed uint64) []int {
	if seed/4%4 != 0 {
		return nil
	}
	first := 150 + int(seed/16%7)*75 // below 1000
	if seed/112%2 == 0 {
		return []int{first}
	}
	return []int{first, first + 40 + int(seed/224%5)*90} // #nosec G115 -- below 1000
}

func (w *World) move() {
	const what = "a move"
	dir := w.newFolder()
	source, err := w.openSource(copied{w, w.log}, dir)
	w.copying(what, err)
	defer func() { w.copying(what, source.Close()) }()
	w.copying(what, source.Fold(context.Background())) // while the service runs
	w.standStill()
	for _, id := range topology.TransactionalIDs(w.setup.partitions) {
		w.log.takeOver(id)
	}
	c, err := source.Capture(context.Background(), dir)
	w.copying(what, err)
	to := w.place(c, 1+(w.setup.partitions+w.rnd.Int32N(2))%3, dir, what)
	w.note("moves", "moved from %d partitions to %d", w.setup.partitions, to.keyed)
	w.goOnWith(to, nil)
}

func (w *World) openSource(log transfer.Log, scratch string) (*transfer.Source, error) {
	return transfer.OpenSource(context.Background(), transfer.SourceConfig{
		Log:      log,
		Scratch:  scratch,
		Now:      func() time.Time { return time.UnixMilli(w.wall()) },
		Progress: func(int64, int64) {},
		Logger:   slog.New(slog.DiscardHandler),
	})
}

func (w *World) place(c *transfer.Copy, partitions int32, scratch, what string) *Log {
	to := newLog(partitions)
	to.byClient()
	_, err := transfer.Place(context.Background(), c, transfer.TargetConfig{
		Log:      copied{w, to},
		Shape:    topology.Shape{Partitions: to.keyed},
		Scratch:  scratch,
		Progress: func(int64, int64) {},
		Logger:   slog.New(slog.DiscardHandler),
	})
	w.copying(what, err)
	return to
}

// inMemory returns an in-memory folder if the system has one, because moves write files.
func inMemory() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return ""
}

// standStill stops every process: cleanly, by a crash, or by letting it hang until the group has
// expelled it.
func (w *World) standStill() {
	hangs := false
	for _, e := range w.engines {
		switch draw := w.rnd.IntN(3); {
		case !e.alive:
		case e.paused || draw == 0 && w.setup.faults > 0:
			e.paused, hangs = true, true
			w.tracef("engine %d hangs during the move", e.id)
		case draw == 1 && w.setup.faults > 0:
			e.crash()
		default:
			e.stop()
		}
	}
	for _, f := range w.followers {
		switch {
		case !f.alive:
		case f.paused || w.setup.faults > 0 && w.chance(0.5):
			f.paused, hangs = true, true
			w.tracef("follower %d hangs during the move", f.id)
		default:
			f.crash()
		}
	}
	if w.mailer.alive {
		w.mailer.crash()
	}
	if hangs {
		w.advance(kafka.SessionTimeout.Milliseconds() + 1)
		w.log.expire(w.txnIDs, w.steady)
	}
	for _, e := range w.engines {
		e.in = false
	}
	for _, f := range w.followers {
		f.in = false
	}
	clear(w.owners)
	w.leader = nil
}

// stop stops a process cleanly, after its attempts in flight have ended or timed out.
func (e *engineProcess) stop() {
	w := e.world
	for _, p := range e.owns() {
		w.revoke(e, p)
	}
	for range 1000 {
		if !e.alive || len(e.tasks) == 0 {
			break
		}
		ready := slices.DeleteFunc(slices.Clone(e.tasks), func(t *engineTask) bool { return !t.ready() })
		if t, is := pick(w, ready); is {
			t.work()
		} else if !w.deliverOutcome() {
			w.advance(secondMillis)
		}
	}
	if e.alive {
		e.crash()
	}
}

// goOnAsZombies makes hung processes continue writing. Nothing of it may be committed.
func (w *World) goOnAsZombies() {
	for _, e := range w.engines {
		for _, t := range slices.Clone(e.tasks) {
			if e.alive && e.paused && t.core != nil && !t.ended && t.ready() && w.chance(0.3) {
				w.count("moves: zombies that go on")
				t.work()
			}
		}
	}
	for _, f := range w.followers {
		if f.alive && f.paused && f.ready() && w.chance(0.3) {
			w.count("moves: zombies that go on")
			f.work()
		}
	}
}

// goOnWith ends the old deployment and continues with another log, which contains the old log's
// journals up to until, or up to their ends if until is nil.
func (w *World) goOnWith(to *Log, until []int64) {
	for _, e := range w.engines {
		if e.alive {
			e.crash()
		}
		e.disks = nil
	}
	for _, f := range w.followers {
		if f.alive {
			f.crash()
		}
		f.disk, f.epochs = nil, nil
	}
	from := w.log
	w.former = append(w.former, formerLog{from, until})
	to.stands = from.stands
	w.checks.moved(from, to)
	w.log, w.setup.partitions = to, to.keyed
	w.txnIDs = append(engineTxns(to.keyed), followerTxn, backfillTxn)
	w.copiedTo = make(map[topicPartition]int64)
	for _, topic := range engine.Inputs() {
		for p := range to.keyed {
			at := topicPartition{topic, p}
			w.copiedTo[at] = to.end(at)
		}
	}
	clear(w.owned)
	clear(w.handedOut)
	w.clients.from = make(map[topicPartition]int64)
	w.clients.restart()
	w.checks.rebase()
}

// formerLog is a log that was left. until are the offsets up to which its journals still count, or
// nil for all of them.
type formerLog struct {
	*Log
	until []int64
}

// byClient assigns keys to partitions like Kafka's clients, as a copy does.
func (l *Log) byClient() {
	l.place = kafka.PartitionOf(int(l.keyed))
}

// copied is a log that package transfer reads and fills.
type copied struct {
	world *World
	*Log
}

func (c copied) Close() {}

func (c copied) Starts(_ context.Context, topic string) (map[int32]int64, error) {
	return c.offsets(topic, func(at topicPartition) int64 { return c.partitions[at].start }), nil
}

// Of returns the offsets up to which the log is decided.
func (c copied) Of(_ context.Context, topic string) (map[int32]int64, error) {
	return c.offsets(topic, c.stable), nil
}

func (c copied) Read(
	_ context.Context, topic string, from, to map[int32]int64, take func(kafka.Record) error,
) error {
	if c.Log == c.world.log {
		c.world.goOnAsZombies()
	}
	return c.readTo(topic, from, to, take)
}

func (c copied) readTo(
	topic string, from, to map[int32]int64, take func(kafka.Record) error,
) error {
	for _, p := range slices.Sorted(maps.Keys(to)) {
		at := topicPartition{topic, p}
		records, _, err := c.readUpTo(at, max(from[p], c.partitions[at].start), to[p], math.MaxInt)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := take(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c copied) Append(_ context.Context, records ...kafka.Record) error {
	for _, r := range records {
		c.write(topicPartition{r.Topic, c.partitionOf(r.Topic, string(r.Key))}, r, nil)
	}
	return nil
}

func (c copied) Place(_ context.Context, records ...kafka.Record) error {
	for _, r := range records {
		at := topicPartition{r.Topic, r.Partition}
		if end := c.end(at); r.Offset != end {
			return fmt.Errorf("sim: a record of %s/%d is placed at %d, and the end is %d", at.topic,
				at.partition, r.Offset, end)
		}
		c.write(at, r, nil)
		if entries := c.partitions[at].entries; kafka.IsFiller(r) { // readers skip it
			entries[len(entries)-1].control = true
		}
	}
	return nil
}

func (c copied) DeleteBefore(_ context.Context, below kafka.Offsets) error {
	for topic, by := range below {
		for p, offset := range by {
			c.partitions[topicPartition{topic, p}].start = offset
		}
	}
	return nil
}

func (c copied) Replica(
	cfg task.CoreConfig[engine.Effect, engine.Outcome],
) (*task.Replica[engine.Effect, engine.Outcome], error) {
	return c.replicaOn(copiedPartition{c.Log, cfg.Partition}, cfg)
}

// copiedPartition is a partition that a replica reads.
type copiedPartition struct {
	log       *Log
	partition int32
}

func (c copiedPartition) Close() {}

func (c copiedPartition) Bounds(
	_ context.Context, topic string,
) (start, end int64, err error) {
	at := topicPartition{topic, c.partition}
	return c.log.partitions[at].start, c.log.stable(at), nil
}

func (c copiedPartition) ReadSome(
	_ context.Context, topic string, from, to int64, _ int,
) (list []kafka.Record, next int64, err error) {
	list, next, err = c.log.readUpTo(topicPartition{topic, c.partition}, from, to, math.MaxInt)
	if err == nil && next < to {
		err = errors.New("sim: a copy reads what is undecided")
	}
	return list, next, err
}

// moved updates the numbers and places that the checkers expect after a move.
func (c *checks) moved(from, to *Log) {
	place := func(id string) int32 { return to.partitionOf(schemas.TopicJournal, id) }
	clear(c.routes)
	for _, found := range c.matched {
		for i := range found {
			found[i].partition = place(found[i].endpoint)
		}
	}
	for id, m := range c.handed {
		m.partition = place(m.endpoint)
		c.handed[id] = m
	}
	c.model.moved(c.world, from, to)
}

// moved removes what belongs to the old journals: numbers of handovers, offsets of parts, and
// settled deliveries that are no longer remembered. A partition remembers as many deliveries as all
// the partitions from which it was made.
func (m *model) moved(w *World, from, to *Log) {
	m.taken = nil
	for id, watch := range m.watches {
		watch.Parts = slices.Clone(watch.Parts)
		for i := range watch.Parts {
			watch.Parts[i].MatchesFrom = 0
		}
		m.watches[id] = watch
	}
	for _, id := range m.created {
		if w.forgot(id) {
			m.out[id] = true
		}
	}
	var kept []settling
	for p := range from.keyed {
		recent := m.recent(func(id string) bool {
			return from.partitionOf(schemas.TopicJournal, id) == p
		}, w.remembered())
		for _, n := range slices.Sorted(maps.Keys(recent)) {
			entry := recent[n]
			if m.isLatest(entry, from) && m.isLatest(entry, to) {
				kept = append(kept, entry)
			}
		}
	}
	m.settled, m.rings = kept, make(map[string]int)
	by := make(map[int32]int)
	for _, entry := range kept {
		by[to.partitionOf(schemas.TopicJournal, entry.endpoint)]++
	}
	for id := range m.endpoints {
		m.rings[id] = by[to.partitionOf(schemas.TopicJournal, id)]
	}
	m.wasMoved = true
}

// isLatest reports whether an entry is a delivery's current state, and the partition has no later
// delivery of its event.
func (m *model) isLatest(entry settling, log *Log) bool {
	d := m.deliveries[entry.deliveryID]
	if d.Version != entry.version || d.Moves != entry.moves {
		return false
	}
	at := log.partitionOf(schemas.TopicJournal, entry.endpoint)
	for id, other := range m.deliveries {
		if id.event == entry.event && other.Moves > d.Moves && !m.out[id] &&
			log.partitionOf(schemas.TopicJournal, id.endpoint) == at {
			return false
		}
	}
	return true
}

// whatWas returns the facts of a delivery before moves. The history has read those topics to their
// ends.
func (w *World) whatWas(id deliveryID) (facts []domain.Fact) {
	for _, log := range w.former {
		at := topicPartition{schemas.TopicJournal, log.partitionOf(schemas.TopicJournal, id.endpoint)}
		records, until := log.read(at, 0, math.MaxInt)
		if log.until != nil {
			until = log.until[at.partition]
		}
		facts = append(facts, factsOf(id, records, until)...)
	}
	return facts
}
