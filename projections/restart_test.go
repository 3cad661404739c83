package projections_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// A history can continue with other topics only if they continue its facts. If the history is
// older or newer, later facts would not fit. A copy that was interrupted after Restart can be
// repeated.
func TestAHistoryGoesOnFromTheCopysPositionOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	check := func(want string, journal, ends []int64) {
		t.Helper()
		err := writer.CheckAt(t.Context(), r.db, journal, ends)
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("at %v: %v, want %q", journal, err, want)
		}
	}
	check("", []int64{9}, []int64{9}) // an empty history can begin anywhere
	first := newStory(1)
	r.append(first.created(1), first.attempt(first.eventID(1), domain.StateWaiting, 500))
	run := r.project(nil)
	r.awaitProjected()
	run.finish(t)
	at := r.journalAt()
	with := slices.Index(at, slices.Max(at))
	moved := func(by int64) []int64 {
		other := slices.Clone(at)
		other[with] += by
		return other
	}
	for range 2 {
		check("", at, at)
		check("", moved(-1), at) // a transaction marker is in between
		check("older", moved(1), moved(1))
		check("newer", moved(-1), moved(-1))
		check("partitions", at[:with], at[:with])
		must(t, writer.Restart(t.Context(), r.db, at))
	}
}

// After a move to other topics, whose offsets begin again, a rebuild must keep the rows that only
// the tables have, as well as those in the new topics.
func TestARebuildKeepsWhatIsOfFormerTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	run := r.project(nil)
	id, facts := aWatch(0)
	first := newStory(1)
	r.append(append(facts, first.created(1), first.refused(1, 1))...)
	r.awaitProjected()
	run.finish(t)
	other := r.restart()
	other.world(3)
	other.project(nil)
	other.append(first.delivered(1, 2))
	other.awaitProjected()
	want := other.checksum()
	must(t, writer.Rebuild(t.Context(), other.refold(nil)))
	other.awaitProjected()
	if got := other.checksum(); got != want {
		t.Errorf("the tables are\n%s\nand were\n%s", got, want)
	}
	if got := watchPage(t, other.history(0), id, 0, 10); len(got.Steps) != len(facts) {
		t.Errorf("the watch has %d steps", len(got.Steps))
	}
}

// After a move to other topics, verification must not report rows that only the tables have,
// whatever their offsets, nor deliveries created before the move, which it counts as not
// compared. It compares the rows that the new topics have.
func TestRowsOfFormerTopicsAreNotCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(5)
	r.move(1, 0, 10, nil)
	run := r.project(nil)
	for n := range 3 {
		story := newStory(n)
		r.append(story.created(1), story.refused(1, 1))
	}
	r.awaitProjected()
	run.finish(t)
	other := r.restart()
	other.world(3) // the same endpoints, watches and payments
	for n := range uint32(20) {
		other.move(2+n, 10+int64(n), 11+int64(n), nil)
	}
	other.project(nil)
	other.append(newStory(0).delivered(1, 2))
	for n := range 30 {
		story := newStory(10 + n)
		other.append(story.created(1), story.refused(1, 1))
	}
	other.awaitProjected()

	found, err := writer.Verify(t.Context(), other.refold(nil))
	must(t, err)
	if len(found.Differences) > 0 {
		t.Errorf("it found %+v", found.Differences)
	}
	if found.Former["payments"] != 2 || found.Former["deliveries"] != 3 ||
		found.Rows["payments"] != 3 || found.Rows["deliveries"] != 30 {
		t.Errorf("compared: %v; not compared: %v", found.Rows, found.Former)
	}
	other.exec("ALTER TABLE payments UPDATE amount_stroops = 1 WHERE payment_id = '8192' " +
		"SETTINGS mutations_sync = 2")
	found, err = writer.Verify(t.Context(), other.refold(nil))
	must(t, err)
	if len(found.Differences) != 1 || !slices.Equal(found.Differences[0].Examples, []string{"8192"}) {
		t.Errorf("it found %+v", found.Differences)
	}
}

// A history with more facts than its journal belongs to another journal. It must not recall
// anything, because an attempt that it knows may get the same number again.
func TestTheHistoryOfAnotherJournalRecallsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := newStory(1)
	r.append(first.created(1))
	r.project(nil)
	r.awaitProjected()
	ends, err := r.journalEnds(t.Context())
	must(t, err)
	for p := range ends {
		ends[p] = max(0, ends[p]-1)
	}
	history := history.New(history.Config{
		DB:      r.db,
		Ends:    func(context.Context) (map[int32]int64, error) { return ends, nil },
		WaitMax: time.Second,
		ReadMax: readMax,
	})
	_, err = history.Recall(t.Context(), testAccount, first.eventID(1))
	if !errors.Is(err, readmodel.ErrBehind) || !strings.Contains(err.Error(), "of another one") {
		t.Errorf("recalled: %v", err)
	}
}

func TestAMoveToOtherTopicsIsNoDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	run, guard := r.project(nil), r.guard(false)
	r.awaitProjected()
	run.finish(t)
	guard() // records the parts
	must(t, writer.Restart(t.Context(), r.db, r.journalAt()))
	damaged, err := r.db.Damage(t.Context())
	must(t, err)
	if len(damaged) > 0 {
		t.Errorf("after the move: %v", damaged)
	}
}

func TestAShorterRetentionIsNoDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	run, guard := r.project(nil), r.guard(false)
	r.awaitProjected()
	run.finish(t)
	guard() // records the parts
	must(t, writer.SetRetention(t.Context(), r.db, 7*24*time.Hour))
	testkit.Eventually(t, "the rows expire", func() bool {
		return r.count("SELECT count() FROM events") == 0
	})
	damaged, err := r.db.Damage(t.Context())
	must(t, err)
	if len(damaged) > 0 {
		t.Errorf("after rows expired: %v", damaged)
	}
}
