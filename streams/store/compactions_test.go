package store

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// compacting opens a store that flushes and compacts often, with at most that many compactions at
// once.
func compacting(t *testing.T, fs vfs.FS, most int) (*pebble.DB, *compactions) {
	t.Helper()
	scheduler := new(compactions)
	opts := &pebble.Options{
		FS:                         fs,
		Logger:                     pebbleLog{slog.New(slog.DiscardHandler)},
		MemTableSize:               64 << 10,
		L0CompactionThreshold:      2,
		LBaseMaxBytes:              64 << 10,
		CompactionConcurrencyRange: func() (int, int) { return 1, most },
	}
	opts.Experimental.CompactionScheduler = scheduler
	db, err := pebble.Open("state", opts)
	if err != nil {
		t.Fatal(err)
	}
	return db, scheduler
}

// fillUp writes several hundred write buffers of random values, each key several times.
func fillUp(t *testing.T, db *pebble.DB) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 4<<10)
	for n := range uint64(4000) {
		_, _ = random.Read(value)
		key := binary.BigEndian.AppendUint64(nil, n*2654435761%1000)
		if err := db.Set(key, value, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

// No compaction waits when none runs: one that had to wait for another starts when that one ends,
// even if nothing more is written.
func TestNoCompactionIsForgotten(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3} {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			db, scheduler := compacting(t, vfs.NewMem(), most)
			fillUp(t, db)
			testkit.Eventually(t, "nothing runs or waits", func() bool {
				scheduler.mu.Lock()
				running := scheduler.running
				scheduler.mu.Unlock()
				waiting, _ := db.GetWaitingCompaction()
				m := db.Metrics()
				return running == 0 && !waiting && m.Compact.NumInProgress == 0 &&
					m.Flush.NumInProgress == 0 && m.Compact.Count > 0
			})
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A store that is closed while it compacts waits for the compaction, starts no other, and is intact
// when it is opened again.
func TestAStoreIsClosedWhileItCompacts(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	for range 5 {
		db, _ := compacting(t, fs, 3)
		fillUp(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db, _ := compacting(t, fs, 1)
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for ok := it.First(); ok; ok = it.Next() {
		keys++
	}
	if err := errors.Join(it.Close(), db.Close()); err != nil || keys != 1000 {
		t.Errorf("%d of 1000 keys, %v", keys, err)
	}
}
