package task_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

type counter struct {
	summer
	given *atomic.Int64
}

func (c *counter) Turn(t *task.Turn, completions []none) error {
	for _, records := range t.Inputs {
		c.given.Add(int64(len(records)))
	}
	return c.summer.Turn(t, completions)
}

func (r *rig) counted(dir string, given *atomic.Int64, now func() time.Time) *summerTask {
	cfg := summing(r.cluster, dir, 0, func() task.Handler[store.Claimed, none] {
		return &counter{given: given}
	})
	cfg.Now = now
	return task.NewTask(cfg)
}

// deleteGroup deletes the group, as an operator might, or the broker after seven idle days.
func (r *rig) deleteGroup() {
	r.t.Helper()
	err := r.cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		deleted, err := admin.DeleteGroup(ctx, r.cluster.Prefix+sumGroup)
		if err != nil {
			return err
		}
		return deleted.Err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) end(topic string) int64 {
	r.t.Helper()
	ends, err := r.cluster.NewEnds()
	if err != nil {
		r.t.Fatal(err)
	}
	defer ends.Close()
	until, err := ends.Of(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return until[0]
}

// The journal contains the input positions, so a task processes no input again if its group, its
// state or both are lost.
func TestInputsAreTakenOnceWithoutGroupAndState(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]struct{ group, state bool }{
		"nothing is lost": {},
		"the group":       {group: true}, "the state": {state: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var given atomic.Int64
			stop := r.run(r.counted(r.dir, &given, time.Now))
			r.feed(1, 40)
			all := r.end(numbersTopic)
			testkit.Eventually(t, "all are taken", func() bool { return given.Load() == all })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if lose.group {
				r.deleteGroup()
			}
			dir := r.dir
			if lose.state {
				dir = t.TempDir()
			}
			stop = r.run(r.counted(dir, &given, time.Now))
			r.feed(41, 60)
			now := r.end(numbersTopic)
			r.wantJournal(r.onPartition(0))
			testkit.Eventually(t, "what came since is taken", func() bool { return given.Load() >= now })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if given.Load() != now {
				t.Errorf("%d inputs were taken, of %d that there are", given.Load(), now)
			}
		})
	}
}

// When the next owner fences a partition's first owner, it aborts the first owner's first record.
// It must still recognize that nothing was processed.
func TestAFirstOwnerMayBeFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.feed(1, 40)
	r.transact(kgo.TryAbort, 0, 1)
	var given atomic.Int64
	stop := r.run(r.counted(r.dir, &given, time.Now))
	r.wantJournal(r.onPartition(0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// If neither the journal nor the group has positions, the task must not guess them.
func TestUnknownPositionsAreRefused(t *testing.T) {
	r := newRig(t)
	p, err := r.cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for n := range 20 { // in both partitions
		if err := p.Append(t.Context(),
			kafka.Record{Topic: sumsTopic, Key: []byte(r.keyOf(n)), Value: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	r.feed(1, 20)
	var given atomic.Int64
	bounded, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	err = r.counted(r.dir, &given, time.Now).Run(bounded, make(chan struct{}))
	if err == nil || !strings.Contains(err.Error(), "kafka-consumer-groups.sh --reset-offsets") ||
		given.Load() != 0 {
		t.Errorf("%d inputs were taken: %v", given.Load(), err)
	}
}

// An idle task writes its positions once a day. Readers of the journal do not see these records.
func TestIdleTasksKeepTheirPositions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var given, days atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(days.Load()) * 24 * time.Hour) }
	stop := r.run(r.counted(r.dir, &given, now))
	r.feed(1, 10)
	r.wantJournal(r.onPartition(0))
	facts := r.journal()
	for range 2 {
		before := r.end(sumsTopic)
		testkit.Eventually(t, "a note in the journal", func() bool {
			days.Add(2)
			return r.end(sumsTopic) > before
		})
	}
	if again := r.journal(); len(again) != len(facts) {
		t.Errorf("readers see %d records in place of %d", len(again), len(facts))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// An owner commits the positions of its first turn to the group at once, and later positions once a
// second, even if no turn follows. The journal has the positions of every turn.
func TestTheGroupGetsPositionsNowAndThen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began := time.Now()
	var given, seconds atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(seconds.Load()) * time.Second) }
	stop := r.run(r.counted(r.dir, &given, now))
	r.feed(1, 40)
	r.wantJournal(r.onPartition(0))
	testkit.Eventually(t, "the group has the first turn's", func() bool { return r.groupAt() > 0 })
	first := r.groupAt()
	r.feed(41, 80)
	r.wantJournal(r.onPartition(0))
	r.feed(81, 120)
	r.wantJournal(r.onPartition(0))
	if at, end := r.groupAt(), r.end(numbersTopic); at >= end {
		t.Errorf("within a second the group's position went from %d to %d, the end", first, at)
	}
	testkit.Eventually(t, "the group has the last turn's", func() bool {
		seconds.Add(1)
		return r.groupAt() == r.end(numbersTopic)
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
