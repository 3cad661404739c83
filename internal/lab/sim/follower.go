package sim

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// errKilled ends a process's current activity when the process dies.
var errKilled = errors.New("sim: killed")

// errLog is a failure of the log. Afterwards, it is unknown what was committed.
var errLog = errors.New("sim: the log did not answer")

// followerProcess is a process with the follower role: a directory, and reading ledgers while it is
// elected. Reading is a coroutine that yields wherever the real follower waits.
type followerProcess struct {
	member
	world     *World
	id        int
	disk      *vfs.MemFS
	directory *directory.Directory
	at        positions // positions of the directory's reader

	live    routine // reads closed ledgers
	past    routine // runs backfills
	reading *follower.Reading
	filler  *follower.Backfiller
	turns   follower.Turns // decides which backfill to advance next
	unsure  bool           // ours has returned false
	epochs  map[string]int // epochs of the transactional ids at the takeover
	elected bool           // as far as it knows
}

// routine is a goroutine of a process, simulated by a coroutine.
type routine struct {
	next    func() (func() bool, bool) // resumes it; nil if not running
	stop    func()
	yield   func(func() bool) bool
	blocked func() bool // wait condition; nil if it isn't waiting
	killed  bool
	lied    bool  // its source returned something other than the expected ledger
	failed  error // error with which it ended
	backoff int64 // by the steady clock
	panel   *panel
}

func (r *routine) begin(do func() error) {
	r.failed, r.killed, r.lied = nil, false, false
	r.next, r.stop = iter.Pull(func(yield func(func() bool) bool) {
		r.yield = yield
		r.failed = do()
	})
}

func (r *routine) end() {
	if r.stop == nil {
		return
	}
	r.killed = true
	r.stop()
	r.next, r.stop, r.yield, r.blocked, r.killed = nil, nil, nil, nil, false
}

// wait yields until the condition holds, or once if until is nil.
func (r *routine) wait(until func() bool) error {
	if r.killed {
		return errKilled
	}
	if !r.yield(until) {
		r.killed = true
		return errKilled
	}
	return nil
}

func (r *routine) ready(now int64) bool {
	return r.backoff <= now && (r.next == nil || r.blocked == nil || r.blocked())
}

type positions kafka.Offsets

// Position returns the position of the directory's reader.
func (p positions) Position(topic string, partition int32) int64 { return p[topic][partition] }

// Epoch is unknown, because the simulated log has a single leader.
func (positions) Epoch(string, int32) int32 { return -1 }

func (f *followerProcess) boot() {
	w := f.world
	f.alive, f.paused, f.in = true, false, true
	f.beat(w)
	if f.disk == nil {
		f.disk = vfs.NewMem()
	}
	var err error
	f.directory, err = directory.OpenOn(context.Background(), directory.Config{
		Dir:           stateDir,
		FS:            f.disk,
		CacheBytes:    1 << 18,
		MemTableBytes: 1 << 20,
		Now:           func() time.Time { return time.UnixMilli(w.steady) },
		Logger:        slog.New(slog.DiscardHandler),
	}, "sim", ends{w.log})
	if err != nil {
		w.violate("the directory of follower %d cannot be opened: %v", f.id, err)
	}
	f.at = positions(f.directory.Position())
	w.tracef("follower %d boots", f.id)
}

// ends answers the directory's requests. It only reads, because the directory sends requests for
// several topics concurrently.
type ends struct{ log *Log }

func (e ends) Starts(_ context.Context, topic string) (map[int32]int64, error) {
	return e.log.offsets(topic, func(topicPartition) int64 { return 0 }), nil
}

func (e ends) Of(_ context.Context, topic string) (map[int32]int64, error) {
	return e.log.offsets(topic, e.log.end), nil
}

// OfEpochs returns nil, because the simulated log has a single leader.
func (ends) OfEpochs(context.Context, string, map[int32]int32) map[int32]int64 { return nil }

func (f *followerProcess) crash() {
	w := f.world
	f.endTerm()
	if err := f.directory.Close(); err != nil {
		w.violate("closing the directory: %v", err)
	}
	f.directory = nil
	f.alive, f.in = false, false
	if w.leader == f {
		w.leader = nil
	}
	switch draw := w.rnd.IntN(10); {
	case draw < 2:
		f.disk = vfs.NewMem()
		w.count("directory: gone")
	case draw < 7:
		tearLog(f.disk, stateDir, w.rnd.Float64())
		w.count("directory: torn or stale")
	}
	w.tracef("follower %d is dead", f.id)
}

func (f *followerProcess) close() {
	f.endTerm()
	if f.directory != nil {
		_ = f.directory.Close()
	}
}

func (w *World) coordinateFollowers() bool {
	did := false
	for _, f := range w.followers {
		switch {
		case f.expelled(w) && f.paused:
			f.in = false
			if w.leader == f {
				w.leader = nil
			}
			w.tracef("the group gives up on follower %d", f.id)
			did = true
		case f.works() && !f.in && w.chance(0.5): // it learns that it has lost everything
			f.endTerm()
			f.in = true
			f.beat(w)
			did = true
		}
	}
	if w.leader != nil {
		return did
	}
	for _, f := range w.followers {
		if f.alive && f.in && f.elected && !f.live.killed {
			return did // it is still giving up the partition
		}
	}
	f, ok := pick(w, workers(w.followers))
	if ok && f.in {
		w.leader, f.elected = f, true
		w.tracef("follower %d is elected", f.id)
		did = true
	}
	return did
}

func (w *World) moveLeader() bool {
	f := w.leader
	if f == nil || !f.works() {
		return false
	}
	w.leader = nil
	f.endTerm()
	w.note("rebalances", "the election is revoked from follower %d", f.id)
	return true
}

func (f *followerProcess) endTerm() {
	f.elected = false
	f.live.end()
	f.past.end()
	f.reading, f.filler = nil, nil
}

func (f *followerProcess) ours() bool {
	ours := f.in && f.fresh(f.world)
	f.unsure = f.unsure || !ours
	return ours
}

// workFollower resumes a follower until it yields, possibly several times.
func (w *World) workFollower() bool {
	var ready []*followerProcess
	for _, f := range workers(w.followers) {
		if f.ready() {
			ready = append(ready, f)
		}
	}
	return keepWorking(w, ready, func(f *followerProcess) bool { return f.works() && f.ready() })
}

func (f *followerProcess) ready() bool {
	return f.elected && (f.live.ready(f.world.steady) || f.pastReady())
}

func (f *followerProcess) pastReady() bool {
	if f.reading == nil || !f.past.ready(f.world.steady) {
		return false
	}
	if f.past.next != nil {
		return true
	}
	_, found, err := f.directory.NextBackfill("", "")
	return found && err == nil
}

func (f *followerProcess) work() {
	w := f.world
	past := f.pastReady() && (!f.live.ready(w.steady) || w.chance(0.3))
	r, begin := &f.live, f.follow
	if past {
		r, begin = &f.past, f.backfill
	}
	if r.next == nil {
		begin()
	}
	blocked, goesOn := r.next()
	r.blocked = blocked
	if goesOn {
		return
	}
	err := r.failed
	r.end()
	switch {
	case errors.Is(err, errKilled):
		f.crash()
	case errors.Is(err, errFenced):
		w.count("fenced followers")
		r.backoff = w.steady + 100
	case past && err == nil:
		r.backoff = w.steady + 100
	case r.lied && !retry.IsPermanent(err):
		r.backoff = w.steady + 100
	case errors.Is(err, errLog), f.unsure:
		r.backoff = w.steady + 100
	default:
		w.violate("follower %d stops: %v", f.id, err)
	}
}

func (f *followerProcess) config(r *routine) follower.Config {
	return follower.Config{
		Watches:    knownWatches{f.directory, r},
		Passphrase: networkName,
		Now:        func() time.Time { return time.UnixMilli(f.world.wall()) },
		Logger:     slog.New(slog.DiscardHandler),
	}
}

func (f *followerProcess) follow() {
	f.unsure = false
	if f.reading == nil {
		cfg := f.config(&f.live)
		cfg.Source, cfg.Claims = f.sourcesOf(&f.live), desk{f, &f.live}
		cfg.Start = follower.Start{Sequence: 1}
		f.reading = follower.NewReading(cfg, followerLog{f, &f.live, followerTxn}, f.ours)
	}
	f.live.begin(func() error {
		_, err := f.reading.Follow(context.Background())
		return err
	})
}

type followerLog struct {
	f  *followerProcess
	r  *routine
	id string // transactional id
}

// Transactional ids of the followers.
const (
	followerTxn = "follower"
	backfillTxn = "follower.backfill"
)

func (l followerLog) PartitionOf(topic string, _ int) func(key string) int32 {
	return func(key string) int32 { return l.f.world.log.partitionOf(topic, key) }
}

func (l followerLog) TakeOver(context.Context) error {
	f := l.f
	if err := l.r.wait(nil); err != nil {
		return err
	}
	if f.epochs == nil {
		f.epochs = make(map[string]int)
	}
	f.epochs[l.id] = f.world.log.takeOver(l.id)
	f.world.tracef("follower %d takes over %s, epoch %d", f.id, l.id, f.epochs[l.id])
	return l.r.wait(nil)
}

// Commit may end anywhere: before anything is written, with an open transaction, or with its
// response lost.
func (l followerLog) Commit(_ context.Context, records ...kafka.Record) error {
	f := l.f
	w := f.world
	if err := l.r.wait(nil); err != nil {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	w.clients.tellFor(records)
	if _, err := w.log.produce(l.id, f.epochs[l.id], w.log.byKey(records), nil, w.steady); err != nil {
		return err
	}
	w.tracef("follower %d writes %d records, to %s first", f.id, len(records), records[0].Topic)
	if err := l.r.wait(nil); err != nil {
		return err
	}
	if err := l.end(records[0].Topic); err != nil {
		return err
	}
	return l.r.wait(nil)
}

// end commits the transaction. Backfills are rare, so they are interrupted more often. They are
// interrupted most often after appending matches, which another follower must then read back.
func (l followerLog) end(topic string) error {
	f := l.f
	w := f.world
	more := 1.0
	switch {
	case l.id != backfillTxn:
	case topic == schemas.TopicMatches:
		more = 8
	default:
		more = 4
	}
	if w.fault(0.04 * more) {
		w.count("crashes of a follower")
		return errKilled
	}
	if err := w.log.decide(l.id, f.epochs[l.id]); err != nil {
		return err
	}
	if w.chance(0.5) {
		for w.log.markNext(w.log.producers[l.id]) {
		}
	}
	w.tracef("follower %d commits", f.id)
	if w.fault(0.03 * more) {
		w.count("follower's commits whose answer was lost")
		return errLog
	}
	return nil
}

func (l followerLog) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	starts, err := copied{l.f.world, l.f.world.log}.Starts(ctx, topic)
	return starts, cmp.Or(err, l.r.wait(nil))
}

func (l followerLog) Of(ctx context.Context, topic string) (map[int32]int64, error) {
	until, err := ends{l.f.world.log}.Of(ctx, topic)
	return until, cmp.Or(err, l.r.wait(nil))
}

// Since returns the starts, because no record is older.
func (l followerLog) Since(
	ctx context.Context, topic string, _ int64,
) (map[int32]int64, error) {
	return l.Starts(ctx, topic)
}

// Read returns committed records. It waits for open transactions.
func (l followerLog) Read(
	_ context.Context, topic string, from, ends map[int32]int64,
	take func(kafka.Record) error,
) error {
	log := l.f.world.log
	for _, p := range kafka.Partitions(ends) {
		at := topicPartition{topic, p}
		if err := l.r.wait(func() bool { return log.stable(at) >= ends[p] }); err != nil {
			return err
		}
		records, _ := log.read(at, from[p], math.MaxInt)
		for _, r := range records {
			if r.Offset >= ends[p] {
				break
			}
			if err := take(r); err != nil {
				return err
			}
		}
	}
	return nil
}

type knownWatches struct {
	*directory.Directory
	r *routine
}

// CatchUp is directory.CatchUp, but yields while it waits.
func (k knownWatches) CatchUp(ctx context.Context) (map[int32]int64, error) {
	ends, err := k.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	d := k.Directory
	if err := k.r.wait(func() bool { return d.Reached(ends) }); err != nil {
		return nil, err
	}
	return d.Position()[schemas.TopicWatches], nil
}

func (k knownWatches) ByWallet(wallet string) (all []domain.Watch, err error) {
	err = k.EachMatchingWatch(wallet, func(w domain.Watch) error {
		all = append(all, w)
		return nil
	})
	return all, err
}

var tables = []string{schemas.TopicAccounts, schemas.TopicEndpoints, schemas.TopicWatches}

func (w *World) fillDirectory() bool {
	did := false
	for !did || w.chance(goesOn) {
		if !w.fillSome() {
			return did
		}
		did = true
	}
	return did
}

func (w *World) fillSome() bool {
	type behind struct {
		f  *followerProcess
		at topicPartition
	}
	var all []behind
	for _, f := range workers(w.followers) {
		for _, topic := range tables {
			for p := range w.log.count(topic) {
				if at := (topicPartition{topic, p}); f.at[topic][p] < w.log.stable(at) {
					all = append(all, behind{f, at})
				}
			}
		}
	}
	b, ok := pick(w, all)
	if ok {
		b.f.fill(b.at, 1+w.rnd.IntN(10))
	}
	return ok
}

func (f *followerProcess) fill(at topicPartition, most int) {
	w := f.world
	records, next := w.log.read(at, f.at[at.topic][at.partition], most)
	f.at[at.topic][at.partition] = next
	if err := f.directory.Take(f.at, records); err != nil {
		w.violate("the directory of follower %d: %v", f.id, err)
	}
}
