package task_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/store"
)

// After a journal was truncated and has grown past a state's checkpoint, it is long enough for the
// state, but its content differs. The state must be rebuilt.
func TestAStateOfAnotherJournalIsRebuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := r.run(r.task(r.dir, nil))
	r.feed(1, 60)
	r.wantJournal(r.onPartition(0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	other := r.elsewhere("other.")
	stop = other.run(other.task(t.TempDir(), nil))
	other.feed(1001, 1200)
	total := other.onPartition(0)
	other.wantJournal(total)
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// The first state replaces the second one. Everything is due, so a starting task claims every
	// entry of its state.
	for _, round := range []string{"the state of another journal", "the rebuilt state"} {
		claimed := make(chan store.Claimed, 10_000)
		stop = other.run(other.task(r.dir, func(c store.Claimed) { claimed <- c }))
		testkit.Eventually(t, "all is claimed from "+round, func() bool { return len(claimed) >= total })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		close(claimed)
		journal := other.journal()
		for c := range claimed {
			if journal[c.ID] != 1 {
				t.Errorf("%s holds %s, which its journal has %d times", round, c.ID, journal[c.ID])
			}
			delete(journal, c.ID)
		}
		if len(journal) > 0 {
			t.Errorf("%s lacks %v", round, journal)
		}
	}
}
