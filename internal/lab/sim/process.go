package sim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

type engineProcess struct {
	member
	world *World
	id    int
	disks map[int32]*vfs.MemFS // of the partitions' state
	tasks []*engineTask        // at most one per partition
	// At most one per partition. A standby waits while there is a task.
	standbys []*standby
	boots    int

	// By partition: the engine's attempts in flight, and our own list of them.
	flights  map[int32]*engine.Flights
	inFlight map[int32][]*flight
}

// drainTimeout limits how long a revoked task waits for outcomes.
const drainTimeout = 15 * time.Second

func txnID(partition int32) string { return "engine-" + strconv.Itoa(int(partition)) }

func engineTxns(partitions int32) (ids []string) {
	for p := range partitions {
		ids = append(ids, txnID(p))
	}
	return ids
}

func (e *engineProcess) boot() {
	if e.disks == nil {
		e.disks = make(map[int32]*vfs.MemFS)
	}
	e.alive, e.paused, e.in = true, false, true
	e.boots++
	e.flights, e.inFlight = make(map[int32]*engine.Flights), make(map[int32][]*flight)
	e.beat(e.world)
	e.world.tracef("engine %d boots", e.id)
}

// crash kills the process. Unsynced writes to its state may be lost, or even the complete disk.
func (e *engineProcess) crash() {
	w := e.world
	e.close()
	e.tasks, e.standbys = nil, nil
	e.alive, e.in = false, false
	for p := range w.setup.partitions {
		if e.disks[p] != nil {
			e.damage(p)
		}
		if w.owners[p] == e {
			delete(w.owners, p)
		}
	}
	w.tracef("engine %d is dead", e.id)
}

func (e *engineProcess) damage(p int32) {
	w := e.world
	switch draw := w.rnd.IntN(10); {
	case draw < 2:
		e.disks[p] = vfs.NewMem()
		w.note("state: gone", "the state of partition %d on engine %d is gone", p, e.id)
	case draw < 7:
		kept, of := tearLog(e.disks[p], stateDir, w.rnd.Float64())
		w.tracef("the state of partition %d on engine %d keeps %d of %d bytes of its log", p, e.id, kept,
			of)
		w.count("state: torn or stale")
	}
}

// tearLog truncates the newest write-ahead log of a closed store, as if the last writes had still
// been in memory.
func tearLog(fs *vfs.MemFS, dir string, keep float64) (kept, of int) {
	names, err := fs.List(dir)
	if err != nil {
		return 0, 0
	}
	newest := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && name > newest {
			newest = name
		}
	}
	if newest == "" {
		return 0, 0
	}
	name := path.Join(dir, newest)
	f, opened := fs.Open(name)
	content, read := io.ReadAll(f)
	kept = int(keep * float64(len(content)))
	cut, created := fs.Create(name, vfs.WriteCategoryUnspecified)
	_, written := cut.Write(content[:kept])
	if err := errors.Join(opened, read, created, written, f.Close(), cut.Close()); err != nil {
		panic(err)
	}
	return kept, len(content)
}

func (e *engineProcess) close() {
	for _, t := range e.tasks {
		t.end()
	}
	for _, s := range e.standbys {
		s.close()
	}
}

func (e *engineProcess) disk(p int32) *vfs.MemFS {
	if e.disks[p] == nil {
		e.disks[p] = vfs.NewMem()
	}
	return e.disks[p]
}

func (e *engineProcess) ours() bool { return e.fresh(e.world) }

func (e *engineProcess) nextDue() int64 {
	next := int64(math.MaxInt64)
	if !e.works() {
		return next
	}
	for _, t := range e.tasks {
		switch {
		case t.core == nil:
			next = min(next, t.until-e.world.steady)
		case t.idle():
			next = min(next, t.wakeAt-e.world.wall(), t.drained-e.world.steady)
		}
	}
	return max(next, 0)
}

func (e *engineProcess) assign(p int32) {
	w := e.world
	w.owners[p] = e
	if s := e.standbyOf(p); s != nil {
		if s.core != nil && s.core.FoldedOf() > 0 {
			w.count("standby: copies taken over")
		}
		e.endStandby(p)
	}
	e.tasks = append(e.tasks, &engineTask{
		process:   e,
		partition: p,
		restarts:  task.NewRestarts(func() float64 { return w.rnd.Float64() }),
	})
	w.tracef("engine %d gets partition %d", e.id, p)
}

func (e *engineProcess) drop(t *engineTask) {
	for i, other := range e.tasks {
		if other == t {
			e.tasks = append(e.tasks[:i:i], e.tasks[i+1:]...)
			return
		}
	}
}

func (w *World) workEngine() bool {
	var ready []*engineTask
	for _, e := range workers(w.engines) {
		for _, t := range e.tasks {
			if t.ready() {
				ready = append(ready, t)
			}
		}
	}
	return keepWorking(w, ready, func(t *engineTask) bool { return t.works() && t.ready() })
}

// goesOn is the probability that a worker continues before anything else happens. With it, most
// steps make progress, but any of them may be interrupted.
const goesOn = 0.7

// keepWorking makes one of several workers perform a step, and possibly more as long as may allows
// it.
func keepWorking[T interface{ work() }](w *World, ready []T, may func(T) bool) bool {
	one, ok := pick(w, ready)
	if !ok {
		return false
	}
	one.work()
	for may(one) && w.chance(goesOn) {
		one.work()
	}
	return true
}

func (t *engineTask) works() bool {
	return t.process.works() && !t.ended && slices.Contains(t.process.tasks, t)
}

// coordinate is the group coordinator. Silent members lose their partitions, returning members
// learn about it, and partitions without an owner are assigned.
func (w *World) coordinate() bool {
	did := false
	for _, e := range w.engines {
		switch {
		case e.expelled(w) && e.paused:
			e.in = false
			for p, owner := range w.owners {
				if owner == e {
					delete(w.owners, p)
				}
			}
			w.tracef("the group gives up on engine %d", e.id)
			did = true
		case e.works() && !e.in && w.chance(0.5): // it learns that it has lost everything
			for _, t := range e.tasks {
				t.end()
			}
			e.tasks = nil
			e.in = true
			e.beat(w)
			w.tracef("engine %d joins again", e.id)
			did = true
		}
	}
	did = w.coordinateFollowers() || did
	if w.chance(0.5) {
		return w.rebalance() || did
	}
	for p := range w.setup.partitions {
		if w.owners[p] != nil || w.drains(p) {
			continue
		}
		var members []*engineProcess
		for _, e := range workers(w.engines) {
			if e.in {
				members = append(members, e)
			}
		}
		if e, ok := pick(w, members); ok {
			e.assign(p)
			did = true
		}
	}
	return did
}

// drains reports whether a member is still giving up a partition.
func (w *World) drains(p int32) bool {
	for _, e := range w.engines {
		for _, t := range e.tasks {
			if e.alive && e.in && t.partition == p {
				return true
			}
		}
	}
	return false
}

// moveCoordination takes a partition from a healthy process, as in a rebalance.
func (w *World) moveCoordination() bool {
	p := w.rnd.Int32N(w.setup.partitions)
	e := w.owners[p]
	if e == nil || !e.works() {
		return false
	}
	w.revoke(e, p)
	return true
}

func (w *World) revoke(e *engineProcess, p int32) {
	delete(w.owners, p)
	for _, t := range slices.Clone(e.tasks) {
		if t.partition == p {
			t.revoke()
		}
	}
	w.note("rebalances", "partition %d is revoked from engine %d", p, e.id)
}

// pause pauses a process without its knowledge, like a stopped or starved one.
func (w *World) pause() bool {
	if w.setup.followers > 1 && w.rnd.IntN(3) == 0 {
		if f, ok := pick(w, workers(w.followers)); ok {
			f.paused = true
			w.note("pauses", "follower %d stands still", f.id)
			return true
		}
	}
	e, ok := pick(w, workers(w.engines))
	if ok {
		e.paused = true
		w.note("pauses", "engine %d stands still", e.id)
	}
	return ok
}

func (w *World) resume() bool {
	for _, e := range w.engines {
		if e.paused {
			e.paused = false
			if !e.in {
				w.count("zombies")
			}
			w.tracef("engine %d goes on", e.id)
			return true
		}
	}
	for _, f := range w.followers {
		if f.paused {
			f.paused = false
			w.tracef("follower %d goes on", f.id)
			return true
		}
	}
	return false
}

const stateDir = "state"

// storeConfig configures an in-memory store. Its write buffer is larger than a run's state, so that
// nothing is flushed unexpectedly. Unlike the engine's, it has a log, so that a crash can leave it
// after any batch.
func storeConfig(fs vfs.FS) store.Config {
	return store.Config{
		Dir:           stateDir,
		Identity:      "sim",
		FS:            fs,
		CacheBytes:    1 << 18,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	}
}

// carried returns the attempts in flight of a partition's former tasks that still have to be
// recorded. The next task takes them over.
func (e *engineProcess) carried(p int32) map[string]underWay {
	under := make(map[string]underWay)
	e.inFlight[p] = slices.DeleteFunc(e.inFlight[p], func(f *flight) bool {
		id := deliveryID{f.attempt.EndpointID, f.attempt.EventID}
		d := e.world.checks.reference.deliveries[id]
		if e.world.forgot(id) {
			e.world.checks.loses(attemptID{id, f.attempt.Number})
			return true
		}
		left := d.movedTo != "" || d.next != "" && e.world.partitionOf(d.next) == p
		awaited := d.attempts+1 == f.attempt.Number &&
			(d.pending() || d.state == domain.StateCancelled && !left)
		if awaited {
			under[f.attempt.EventID] = underWay{
				endpoint: f.attempt.EndpointID,
				number:   f.attempt.Number,
				probing:  true,
			}
			e.world.count("attempts taken up by another task")
		}
		return !awaited
	})
	return under
}

func (e *engineProcess) recorded(p int32, taken []engine.Outcome) {
	for _, o := range taken {
		e.inFlight[p] = slices.DeleteFunc(e.inFlight[p], func(f *flight) bool {
			return f.attempt.EventID == o.Attempt.EventID && f.attempt.Number == o.Attempt.Number
		})
	}
}

func (t *engineTask) open() *core {
	e := t.process
	w := e.world
	if e.flights[t.partition] == nil {
		e.flights[t.partition] = engine.NewFlights(dispatcher{e, t.partition})
	}
	submit := func(o engine.Outcome) {
		if !t.ended {
			t.arrived = append(t.arrived, o)
		}
	}
	return w.newCore(t.partition, e.disk(t.partition), w.snapshotConfig(),
		func(cfg engine.Config) handler {
			kept := e.flights[t.partition].Inherit(submit)
			return engine.NewHandler(cfg, kept)
		})
}

type handler = task.Handler[engine.Effect, engine.Outcome]

func (w *World) newCore(
	partition int32, disk vfs.FS, snapshots task.SnapshotConfig,
	newHandler func(engine.Config) handler,
) *core {
	return task.NewCore(w.coreConfig(partition, disk, snapshots, newHandler))
}

func signingKeys(endpointID string) []domain.Secret {
	return []domain.Secret{domain.Secret("the key of " + endpointID)}
}

func (w *World) coreConfig(
	partition int32, disk vfs.FS, snapshots task.SnapshotConfig,
	newHandler func(engine.Config) handler,
) task.CoreConfig[engine.Effect, engine.Outcome] {
	cfg := engine.Config{
		Policy:              w.setup.policy,
		AttemptsInFlight:    w.setup.inFlight,
		AttemptsPerEndpoint: w.setup.perEndpoint,
		RememberedSettled:   w.setup.remembered,
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		SigningKeys: func(endpointID string, _ int64) ([]domain.Secret, error) {
			return signingKeys(endpointID), nil
		},
		PartitionOf: w.partitionOf,
		OnFact:      w.checks.checkReported,
		Logger:      slog.New(slog.DiscardHandler),
	}
	return task.CoreConfig[engine.Effect, engine.Outcome]{
		Partition:    partition,
		Journal:      schemas.TopicJournal,
		Inputs:       engine.Inputs(),
		Store:        storeConfig(disk),
		NewHandler:   func() handler { return newHandler(cfg) },
		DrainTimeout: drainTimeout,
		Snapshots:    snapshots,
		Logger:       slog.New(alarm{slog.DiscardHandler, w, partition}),
	}
}

// alarm is the cores' logger. An error means that records were lost, or that a copy has records
// that were never committed. A warning means that a snapshot is unusable, which only damage may
// cause, or that a turn that wrote a part of a snapshot failed.
type alarm struct {
	slog.Handler
	world     *World
	partition int32
}

func (alarm) Enabled(context.Context, slog.Level) bool { return true }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	usable := r.Level == slog.LevelWarn && (a.world.Stats[damagedSnapshots] > 0 ||
		strings.Contains(r.Message, "passed over") ||
		strings.Contains(r.Message, "without snapshots for a while"))
	switch {
	case r.Level <= slog.LevelInfo || usable:
	case a.world.handedOut[a.partition]:
		a.world.count("standby: copies built anew")
	default:
		a.world.violate("G4: %s", r.Message)
	}
	return nil
}
