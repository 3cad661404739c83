package task

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/streams/store"
)

// An idle task takes turns without inputs. They must not leave anything for its store to flush.
func TestKnownPositionsAreNotWrittenAgain(t *testing.T) {
	s, err := store.Open(store.Config{
		Dir:           "state",
		Identity:      "test",
		FS:            vfs.NewMem(),
		CacheBytes:    1 << 20,
		MemTableBytes: 64 << 10,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := progress{inputs: []string{"commands"}, positions: inputPositions{"commands": 1}}
	change := func(f func(*store.Batch) error) {
		t.Helper()
		b := s.Begin()
		if err := f(b); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	turn := func() string {
		t.Helper()
		change(func(b *store.Batch) error { return b.Delete(inputsKey) })
		change(p.saveInputs)
		value, err := s.Get(inputsKey)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	if got := turn(); got != "commands=1" {
		t.Errorf("new positions are stored as %q", got)
	}
	if got := turn(); got != "" {
		t.Errorf("known positions are written again: %q", got)
	}
	p.positions["commands"] = 2
	if got := turn(); got != "commands=2" {
		t.Errorf("changed positions are stored as %q", got)
	}
	p.reset() // the state is empty now
	p.positions = inputPositions{"commands": 2}
	if got := turn(); got != "commands=2" {
		t.Errorf("an emptied state has the positions %q", got)
	}
}
