package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// Pebble counts the write buffers as part of its cache. They must leave room for blocks that were
// read.
func TestBlocksStayInTheCache(t *testing.T) {
	s, err := Open(Config{
		Dir:           "state",
		FS:            vfs.NewMem(),
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key := func(n int) []byte { return fmt.Appendf(nil, "%c%08d", FirstKey, n) }
	for n := range 60 { // three and a half buffers
		b := s.Begin()
		if err := b.Set(key(n), make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (misses int64) {
		before := s.db.Metrics().BlockCache.Misses
		if _, err := s.Get(key(0)); err != nil {
			t.Fatal(err)
		}
		return s.db.Metrics().BlockCache.Misses - before
	}
	if read() == 0 {
		t.Fatal("the first read needed no block: the key is still in a buffer")
	}
	// A compaction may move the key to another block in between.
	testkit.Eventually(t, "a read needs no block from the disk", func() bool { return read() == 0 })
}

// An empty lower bound means no bound. Pebble's own checks, which the race detector turns on,
// refuse an empty one (make race).
func TestAScanFromTheBeginning(t *testing.T) {
	s := openUnlogged(t, vfs.NewCrashableMem())
	key := []byte{FirstKey}
	b := s.Begin()
	check(t, b.Set(key, []byte("value")))
	for _, lower := range [][]byte{nil, {}, key} {
		for name, scan := range map[string]func([]byte, []byte, func([]byte, []byte) (bool, error)) error{
			"batch": b.Scan, "store": s.Scan,
		} {
			found := false
			check(t, scan(lower, []byte{FirstKey + 1}, func(k, _ []byte) (bool, error) {
				found = found || bytes.Equal(k, key)
				return true, nil
			}))
			if want := name == "batch"; found != want {
				t.Errorf("from %q, the %s has the key: %v", lower, name, found)
			}
		}
	}
	b.Discard()
	check(t, s.Close())
}

// After a crash, a store without a log has a prefix of its batches, all complete, and their
// checkpoint. This holds after several crashes and with batches that are larger than a write
// buffer. After a clean close, the store has all batches.
func TestACrashLeavesAStateOfOneMoment(t *testing.T) {
	const batches, keys, usual, largest = 400, 20, 250, 6000 // 5 KiB, and twice a buffer
	random := rand.New(rand.NewPCG(1, 2))
	disk := vfs.NewCrashableMem()
	s := openUnlogged(t, disk)
	var at, latest, furthest int64
	for range batches {
		at++
		size := usual
		if random.IntN(5) == 0 {
			size += random.IntN(largest - usual)
		}
		b := s.Begin()
		check(t, b.SetCheckpoint("journal", 0, at))
		for k := range keys {
			check(t, b.Set(fmt.Appendf(nil, "%c%d", FirstKey, k), fmt.Appendf(nil, "%*d", size, at)))
		}
		check(t, b.Commit())
		if random.IntN(15) > 0 {
			continue
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: random.IntN(101),
			RNG:                 random,
		})
		after := openUnlogged(t, crashed)
		left := momentOfState(t, after, keys)
		if left < latest || left > at {
			t.Errorf("after batch %d, a crash left the state of batch %d; an earlier one %d", at, left,
				latest)
		}
		latest, furthest = left, max(furthest, left)
		if random.IntN(3) == 0 { // continue from there
			s, after, disk, at = after, s, crashed, left
		}
		check(t, after.Close())
	}
	if furthest == 0 {
		t.Error("no crash left anything")
	}
	check(t, s.Close())
	s = openUnlogged(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	defer s.Close()
	if left := momentOfState(t, s, keys); left != at {
		t.Errorf("a stop left the state of batch %d, not of %d", left, at)
	}
}

// A crash soon after loading a snapshot must not make the store load it again.
func TestALoadedStateOutlivesACrash(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := openUnlogged(t, disk)
	defer s.Close()
	check(t, s.BeginLoading())
	b := s.Begin()
	check(t, b.SetCheckpoint("journal", 0, 100))
	check(t, b.Commit())
	check(t, s.EndLoading())
	wantCheckpointAfterACrash(t, disk, 100)
}

// Data in a buffer reaches the disk within a bounded time, even if nothing more is written, and at
// once if a task asks for it.
func TestWhatABufferKeepsGetsToTheDisk(t *testing.T) {
	for name, every := range map[string]time.Duration{"by time": time.Millisecond, "asked": 0} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			cfg := unloggedConfig(disk)
			cfg.FlushEvery = every
			s, err := Open(cfg)
			check(t, err)
			defer s.Close()
			for at := int64(1); at <= 3; at++ { // more than one flush
				b := s.Begin()
				check(t, b.SetCheckpoint("journal", 0, at))
				check(t, b.Commit())
				if every == 0 {
					check(t, s.BeginFlush())
				}
				testkit.Eventually(t, "it is on disk", func() bool {
					return checkpointAfterACrash(t, disk) == at
				})
			}
		})
	}
}

// A requested flush must cancel the scheduled one. Otherwise every requested flush would start
// another endless series.
func TestAFlushThatIsMadeIsNoLongerToCome(t *testing.T) {
	cfg := unloggedConfig(vfs.NewMem())
	cfg.FlushEvery = time.Hour
	s, err := Open(cfg)
	check(t, err)
	defer s.Close()
	for at := range int64(3) {
		b := s.Begin()
		check(t, b.SetCheckpoint("journal", 0, at))
		check(t, b.Commit())
		check(t, s.BeginFlush())
		if s.flusher.timer.Stop() {
			t.Error("another flush would come of what is on its way to the disk")
		}
	}
}

// An idle task's turns write nothing, so they must not schedule flushes.
func TestAnEmptyBatchIsNotBroughtToTheDisk(t *testing.T) {
	cfg := unloggedConfig(vfs.NewMem())
	cfg.FlushEvery = time.Hour
	s, err := Open(cfg)
	check(t, err)
	defer s.Close()
	flushes := func(keys ...string) bool {
		check(t, s.BeginFlush())
		b := s.Begin()
		for _, key := range keys {
			check(t, b.Set([]byte(key), []byte("1")))
		}
		check(t, b.Commit())
		return s.flusher.armed.Load()
	}
	if !flushes("positions") {
		t.Error("what is new stays in memory")
	}
	if flushes() {
		t.Error("an empty batch schedules a flush")
	}
}

// A state that is known to be wrong must not be used again after a crash, even without a log.
func TestDistrustOutlivesACrash(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := openUnlogged(t, disk)
	defer s.Close()
	b := s.Begin()
	check(t, b.SetCheckpoint("journal", 0, 7))
	check(t, errors.Join(b.Commit(), s.flushUnlogged()))
	wantCheckpointAfterACrash(t, disk, 7)
	check(t, s.Distrust())
	wantCheckpointAfterACrash(t, disk, 0) // it is emptied
}

// An earlier version, which had a log, was killed. Its successor without a log continues with its
// state.
func TestALogOfAnEarlierProgramIsRead(t *testing.T) {
	disk := vfs.NewCrashableMem()
	logged := unloggedConfig(disk)
	logged.Unlogged = false
	earlier, err := Open(logged)
	check(t, err)
	defer earlier.Close()
	for n := range int64(50) {
		b := earlier.Begin()
		check(t, errors.Join(b.SetCheckpoint("journal", 0, n), b.changes.Commit(pebble.Sync)))
	}
	left := disk.CrashClone(vfs.CrashCloneCfg{})
	for range 2 { // the second time, the state is in the tables
		s := openUnlogged(t, left)
		if next, err := s.Checkpoint("journal", 0); err != nil || next != 49 {
			t.Errorf("the state is at %d (%v), not at 49", next, err)
		}
		left = left.CrashClone(vfs.CrashCloneCfg{})
		check(t, s.Close())
	}
}

func unloggedConfig(disk vfs.FS) Config {
	return Config{
		Dir:           "state",
		Identity:      "test",
		FS:            disk,
		CacheBytes:    1 << 20,
		MemTableBytes: 64 << 10,
		Unlogged:      true,
		Logger:        slog.New(slog.DiscardHandler),
	}
}

func openUnlogged(t *testing.T, disk vfs.FS) *Store {
	t.Helper()
	s, err := Open(unloggedConfig(disk))
	check(t, err)
	return s
}

// checkpointAfterACrash returns the checkpoint of the state that a crash would leave now.
func checkpointAfterACrash(t *testing.T, disk *vfs.MemFS) int64 {
	t.Helper()
	after := openUnlogged(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	defer after.Close()
	next, err := after.Checkpoint("journal", 0)
	check(t, err)
	return next
}

func wantCheckpointAfterACrash(t *testing.T, disk *vfs.MemFS, want int64) {
	t.Helper()
	if next := checkpointAfterACrash(t, disk); next != want {
		t.Errorf("after a crash the state is at %d, not at %d", next, want)
	}
}

// momentOfState returns the batch that a state reflects, and checks that it is the same for all
// keys.
func momentOfState(t *testing.T, s *Store, keys int) int64 {
	t.Helper()
	at, err := s.Checkpoint("journal", 0)
	check(t, err)
	for k := range keys {
		value, err := s.Get(fmt.Appendf(nil, "%c%d", FirstKey, k))
		check(t, err)
		of := string(bytes.TrimLeft(value, " "))
		if of != strconv.FormatInt(at, 10) && (at > 0 || value != nil) {
			t.Fatalf("the checkpoint is at %d, and a key at %q", at, of)
		}
	}
	return at
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
