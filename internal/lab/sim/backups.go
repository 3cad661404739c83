package sim

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// A disaster destroys everything except a backup: topics, processes and disks. A backup is written
// while the service runs, as with lumenhook backup, and later restored, as with lumenhook restore,
// into topics with any number of partitions. Everything after the backup is lost.

// disaster holds the step in which a backup is written, and the step in which everything else is
// lost.
type disaster struct{ copied, lost int }

// disastersDrawn draws the disasters of a run. Most runs have none. Some of the others have a move
// before them.
func disastersDrawn(seed uint64) (list []disaster, moves []int) {
	if seed/4%4 != 2 || seed/16%2 != 1 {
		return nil, nil
	}
	n := int(seed / 32) // only used for drawing
	first := disaster{copied: 140 + n%7*70}
	first.lost = first.copied + 15 + n/7%5*60
	list = append(list, first)
	if n/35%2 == 0 {
		second := disaster{copied: first.lost + 90 + n/70%3*90}
		second.lost = second.copied + 15 + n/210%4*70
		list = append(list, second)
	}
	if n%3 == 0 {
		moves = []int{first.copied - 60}
	}
	return list, moves
}

// isCopied reports whether the run writes journals that start with a snapshot of a copy.
func (s setup) isCopied() bool { return len(s.moves)+len(s.disasters) > 0 }

// strike writes a backup, or loses everything else, if this is the step for it.
func (w *World) strike(step int) bool {
	for _, d := range w.setup.disasters {
		switch step {
		case d.copied:
			w.backUp()
			return true
		case d.lost:
			if w.backup != nil { // its step may be left out
				w.loseAll()
			}
			return true
		}
	}
	return false
}

// backup is a backup's folder with what the checkers need to know about the time when it was
// started.
type backup struct {
	dir   string
	about transfer.Manifest
	// facts is the number of facts committed since the last copy, and matched are the events matched
	// by then.
	facts   int
	matched map[string]bool
}

func (w *World) backUp() {
	b := &backup{dir: w.newFolder(), facts: len(w.checks.committed), matched: make(map[string]bool)}
	for event := range w.checks.matched {
		b.matched[event] = true
	}
	scratch := w.newFolder()
	w.held = true
	defer func() { w.held = false }()
	ctx, what := context.Background(), "a backup"
	source, err := w.openSource(served{copied{w, w.log}}, scratch)
	w.copying(what, err)
	w.copying(what, source.Fold(ctx))
	c, err := source.Capture(ctx, b.dir)
	w.copying(what, err)
	w.copying(what, c.Save(func(int64, int64) {}))
	w.copying(what, source.Close())
	b.about = c.Manifest()
	w.backup = b
	w.note("backups", "a backup has the journals up to %v", b.about.Journal)
}

func (w *World) newFolder() string {
	dir, err := os.MkdirTemp(inMemory(), "lumenhook-sim-")
	if err != nil {
		panic(err)
	}
	w.folders = append(w.folders, dir)
	return dir
}

func (w *World) removeFolders() {
	for _, dir := range w.folders {
		_ = os.RemoveAll(dir)
	}
	w.folders = nil
}

// loseAll loses everything except the backup, and continues some time later with the restored
// deployment.
func (w *World) loseAll() {
	b := w.backup
	w.note("disasters", "all is lost but a backup")
	w.killEverything()
	clear(w.owners)
	w.leader = nil
	w.advance(kafka.SessionTimeout.Milliseconds() + w.rnd.Int64N(6*hourMillis))
	partitions, what, scratch := 1+w.rnd.Int32N(3), "a restore", w.newFolder()
	c, err := transfer.Load(b.dir, scratch, slog.New(slog.DiscardHandler), func(int64, int64) {})
	w.copying(what, err)
	to := w.place(c, partitions, scratch, what)
	w.copying(what, c.Close())
	w.tracef("restored into %d partitions", to.keyed)
	w.checks.goBack(b, to)
	w.goOnWith(to, b.about.Journal)
	w.clients.askForTheLost()
}

func (w *World) copying(what string, err error) {
	if err != nil {
		w.violate("%s fails: %v", what, err)
	}
}

// served is a log that is read while its deployment runs: something happens between any two
// responses, and brokers don't respond at the same moment.
type served struct{ copied }

// goOnBeside makes a few things happen while a backup is written.
func (w *World) goOnBeside() {
	for range w.rnd.IntN(4) {
		from := actions
		if w.rnd.Float64() < faultShare*w.setup.faults {
			from = faults
		}
		w.act(from)
		w.log.expire(w.txnIDs, w.steady)
	}
}

// patience is after how many such things time advances, until a transaction is aborted.
const patience = 40

// untilDecided makes things happen until a partition has no open transaction before an offset.
func (w *World) untilDecided(at topicPartition, end int64) {
	for n := 0; w.log.stable(at) < end; n++ {
		w.goOnBeside()
		if n > patience {
			w.writeMarker()
			w.advance(secondMillis)
		}
	}
}

func (s served) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	s.world.goOnBeside()
	return s.copied.Starts(ctx, topic)
}

// Of returns the ends, including undecided records.
func (s served) Of(_ context.Context, topic string) (map[int32]int64, error) {
	by := make(map[int32]int64)
	for _, p := range s.world.rnd.Perm(int(s.count(topic))) {
		s.world.goOnBeside()
		p := int32(p) // #nosec G115 -- a partition
		by[p] = s.end(topicPartition{topic, p})
	}
	return by, nil
}

func (s served) Read(
	_ context.Context, topic string, from, to map[int32]int64, take func(kafka.Record) error,
) error {
	for _, p := range slices.Sorted(maps.Keys(to)) {
		s.world.untilDecided(topicPartition{topic, p}, to[p])
	}
	return s.readTo(topic, from, to, take)
}

func (s served) Replica(
	cfg task.CoreConfig[engine.Effect, engine.Outcome],
) (*task.Replica[engine.Effect, engine.Outcome], error) {
	return s.replicaOn(servedPartition{copiedPartition{s.Log, cfg.Partition}, s.world}, cfg)
}

// servedPartition is a partition that a replica reads while its owner keeps running.
type servedPartition struct {
	copiedPartition
	world *World
}

func (s servedPartition) Bounds(
	_ context.Context, topic string,
) (start, end int64, err error) {
	at := topicPartition{topic, s.partition}
	start = s.log.partitions[at].start
	s.world.goOnBeside()
	return start, s.log.end(at), nil
}

func (s servedPartition) ReadSome(
	_ context.Context, topic string, from, to int64, _ int,
) (list []kafka.Record, next int64, err error) {
	at := topicPartition{topic, s.partition}
	s.world.goOnBeside()
	s.world.untilDecided(at, from+1)
	return s.log.readUpTo(at, from, to, 1+s.world.rnd.IntN(64))
}

// replicaOn returns a replica with the run's settings and a disk in memory.
func (c copied) replicaOn(
	log task.PartitionLog, cfg task.CoreConfig[engine.Effect, engine.Outcome],
) (*task.Replica[engine.Effect, engine.Outcome], error) {
	w := c.world
	cfg.Store.FS = vfs.NewMem()
	cfg.NewHandler = func() handler {
		return engine.NewHandler(engine.Config{
			RememberedSettled: w.setup.remembered,
			Logger:            slog.New(slog.DiscardHandler),
		}, nil)
	}
	return task.NewReplicaOn(log, cfg)
}

// copiedRecords returns a topic's records in a new log, all of which are copies.
func (l *Log) copiedRecords(topic string) (all []kafka.Record) {
	for p := range l.count(topic) {
		for _, e := range l.partitions[topicPartition{topic, p}].entries {
			if !e.control { // a filler
				all = append(all, e.record)
			}
		}
	}
	return all
}
