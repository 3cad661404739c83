package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

const formerIdentity = "sums 0"

type release struct {
	former bool // writes the previous format
	reads  bool // also reads the previous format
	now    func() time.Time
}

// ofRelease returns a task of a release that has its state in dir.
func (r *rig) ofRelease(of release, dir string, effects func(store.Claimed)) *summerTask {
	cfg := r.config(dir, effects)
	cfg.NewHandler = func() task.Handler[store.Claimed, none] {
		return &summer{former: of.former}
	}
	cfg.Snapshots = task.SnapshotConfig{
		Topic:      snapshotsTopic,
		Identity:   sumsIdentity,
		Every:      20,
		ChunkBytes: 256,
		Advise:     func(identity string) string { return "It is of " + identity + "." },
	}
	if of.former {
		cfg.Snapshots.Identity = formerIdentity
	}
	if of.reads {
		cfg.Snapshots.Earlier = []task.EarlierFormat{{
			Identity: formerIdentity,
			Convert:  task.Conversion{Entry: toToday},
		}}
	}
	if of.now != nil {
		cfg.Now = of.now
	}
	cfg.Store.Identity = cfg.Snapshots.Identity
	return task.NewTask(cfg)
}

func toToday(key, value []byte, put func(key, value []byte) error) error {
	if key[0] == store.FirstKey && key[1] == 'n' {
		key = append([]byte{store.FirstKey, 'k'}, key[2:]...)
	}
	return put(key, value)
}

// works feeds numbers to a task of a release until it has written the given number of snapshots,
// and stops it. It returns the next number and the offsets that a restore needs.
func (r *rig) works(
	of release, dir string, from, snapshots int,
) (next int, needed task.NeededFrom) {
	r.t.Helper()
	task := r.ofRelease(of, dir, nil)
	stop := r.run(task)
	want := len(r.snapshots()) + snapshots
	for len(r.snapshots()) < want {
		if from > 10_000 {
			r.t.Fatalf("%d numbers led to no %d snapshots", from, want)
		}
		r.feed(from, from+19)
		from += 20
		r.wantJournal(r.onPartition(0))
	}
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	return from, task.Stats().Needed
}

// wantKnown starts a task of a release in dir and checks that it knows all numbers. It must treat
// every number that it receives again as a repeat.
func (r *rig) wantKnown(of release, dir string) {
	r.t.Helper()
	total := r.onPartition(0)
	claimed := make(chan store.Claimed, 10_000)
	stop := r.run(r.ofRelease(of, dir, func(c store.Claimed) { claimed <- c }))
	testkit.Eventually(r.t, "all is claimed", func() bool { return len(claimed) >= total })
	r.feed(1, 40)
	r.feed(9_001, 9_020)
	testkit.Eventually(r.t, "it goes on", func() bool {
		return r.journal()[r.keyOfPartition0(9_001, 9_020)] == 1
	})
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	for key, n := range r.journal() {
		if n > 1 {
			r.t.Errorf("%s is in the journal %d times", key, n)
		}
	}
}

// The beginning of the journal has been deleted, so the next release depends on the snapshot. It
// may start in an empty folder or in one that has a state of the previous format.
func TestASnapshotOfAnEarlierFormatIsConverted(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	_, needed := r.works(release{former: true}, r.dir, 1, 3)
	list := r.snapshots()
	r.deleteBefore(sumsTopic, list[len(list)-1].next())
	if needed.Snapshots == 0 {
		t.Fatal("the release before frees nothing, so that nothing was found out")
	}
	for _, dir := range []string{t.TempDir(), r.dir} {
		r.wantKnown(release{reads: true}, dir)
	}
}

// The error names the unknown format, older or newer, and says what to do.
func TestAFormatThatIsNotReadIsNamed(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]struct {
		wrote, reads release
		says         string
	}{
		"older": {release{former: true}, release{}, "It is of sums 0."},
		"newer": {release{}, release{former: true}, "It is of sums 1."},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSnapshotRig(t)
			r.works(by.wrote, r.dir, 1, 2)
			list := r.snapshots()
			r.deleteBefore(sumsTopic, list[len(list)-1].next())
			ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
			defer cancel()
			err := r.ofRelease(by.reads, t.TempDir(), nil).Run(ctx, make(chan struct{}))
			if err == nil || !strings.Contains(err.Error(), by.says) {
				t.Errorf("the task ended with %v", err)
			}
		})
	}
}

// For a day after a conversion, the previous release can take the partition back with its own
// snapshots and the journal after them. A task that loads a snapshot of the converted state keeps
// the same deadline.
func TestAConvertedStateFreesNothingForADay(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	next, needed := r.works(release{former: true}, r.dir, 1, 3)
	if needed.Snapshots == 0 {
		t.Fatal("the release before frees nothing, so that nothing was found out")
	}
	r.deleteBefore(sumsTopic, needed.Journal)
	r.deleteBefore(snapshotsTopic, needed.Snapshots)
	now := time.Now()
	clock := func() time.Time { return now }
	converted := t.TempDir()
	next, needed = r.works(release{reads: true, now: clock}, converted, next, 3)
	if needed != (task.NeededFrom{}) {
		t.Errorf("right after the conversion, %+v is needed", needed)
	}
	now = now.Add(23 * time.Hour)
	fresh := t.TempDir()
	next, needed = r.works(release{reads: true, now: clock}, fresh, next, 3)
	if needed != (task.NeededFrom{}) {
		t.Errorf("by another process and 23 hours later, %+v is needed", needed)
	}
	r.wantKnown(release{former: true}, t.TempDir()) // back to the previous release
	now = now.Add(2 * time.Hour)
	_, needed = r.works(release{reads: true, now: clock}, fresh, next, 1)
	if needed.Journal == 0 || needed.Snapshots == 0 {
		t.Errorf("25 hours later, %+v is needed", needed)
	}
}

// If the clock is set back after a conversion, the day starts at the corrected time. It must not
// start only when the clock reaches the old time again.
func TestAClockThatWasAheadHoldsForADay(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	next, _ := r.works(release{former: true}, r.dir, 1, 3)
	now := time.Now().AddDate(1, 0, 0)
	by := release{reads: true, now: func() time.Time { return now }}
	dir := t.TempDir()
	next, _ = r.works(by, dir, next, 2)
	now = now.AddDate(-1, 0, 0)
	next, needed := r.works(by, dir, next, 2)
	if needed != (task.NeededFrom{}) {
		t.Errorf("when the clock was set back, %+v is needed", needed)
	}
	now = now.Add(25 * time.Hour)
	if _, needed = r.works(by, dir, next, 2); needed.Journal == 0 || needed.Snapshots == 0 {
		t.Errorf("25 hours later, %+v is needed", needed)
	}
}
