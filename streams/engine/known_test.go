package engine

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/streams/store"
)

// TestWhatIsThereIsNeverMissed: deliveries come and go during the scan, and no existing one is ever
// reported as missing. After the scan, all missing ones are reported as missing.
func TestWhatIsThereIsNeverMissed(t *testing.T) {
	store, err := store.Open(store.Config{
		Dir:           "state",
		Identity:      "of a test",
		FS:            vfs.NewMem(),
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	event := func() string { return fmt.Sprintf("evt_%05d", rnd.IntN(6*scanAtOnce)) }
	there := make(map[string]bool)
	k := newKnown()
	turn := func(changes int) {
		batch := store.Begin()
		if len(there) > 0 {
			if err := k.scan(batch); err != nil {
				t.Fatal(err)
			}
		}
		for range changes {
			id := event()
			key := keyOf(spaceDelivery, id)
			if there[id] {
				err = batch.Delete(key)
				k.remove(id)
				delete(there, id)
			} else {
				err = batch.Set(key, []byte("a delivery"))
				k.add(id)
				there[id] = true
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Commit(); err != nil {
			t.Fatal(err)
		}
		for id := range there {
			if k.lacks(id) {
				t.Fatalf("%s is there, and the scan is at %q", id, k.passed)
			}
		}
	}
	turn(8 * scanAtOnce) // before the scan
	turns := 1
	for ; !k.all; turns++ {
		turn(500)
	}
	if turns < 4 {
		t.Errorf("the scan took %d turns: nothing happened beside it", turns)
	}
	turn(5000)
	for n := range 6 * scanAtOnce {
		if id := fmt.Sprintf("evt_%05d", n); k.lacks(id) == there[id] {
			t.Fatalf("%s is there: %t, and it is said to be missing: %t", id, there[id], k.lacks(id))
		}
	}
	if len(k.counts) > len(there) {
		t.Errorf("%d hashes are held for %d deliveries", len(k.counts), len(there))
	}
}

// TestManyEventsOfOneHash: a saturated count means unknown, and stays saturated.
func TestManyEventsOfOneHash(t *testing.T) {
	k := newKnown()
	k.all = true
	for range 300 {
		k.add("evt_1")
	}
	for range 300 {
		k.remove("evt_1")
	}
	if k.lacks("evt_1") {
		t.Error("an event is said to be missing whose hash was counted only in part")
	}
}
