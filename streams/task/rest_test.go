package task_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/task"
)

// The snapshot topic is deleted and later recreated. The task restarts for it once, not forever.
func TestAPartitionContinuesWithoutSnapshotsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	r.takeSnapshots(1)
	rest := task.NewSnapshotRest()
	var made, ahead atomic.Int64
	tasks := task.NewTasks(func(int32) task.Runner {
		made.Add(1)
		cfg := r.snapshottingConfig(r.dir, sumsIdentity, nil)
		cfg.Snapshots.Rest = rest
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		return task.NewTask(cfg)
	}, r.cluster.Logger)
	tasks.Assigned([]int32{0})
	defer tasks.Revoked([]int32{0})
	testkit.Eventually(t, "the task works", func() bool {
		stats := tasks.Stats()
		return len(stats) > 0 && stats[0].Restored
	})
	if err := r.cluster.DeleteTopic(t.Context(), snapshotsTopic); err != nil {
		t.Fatal(err)
	}
	next := 100_001
	feed := func() {
		r.feed(next, next+39)
		next += 40
		r.wantJournal(r.onPartition(0))
	}
	for rest.Failures() == 0 {
		feed()
	}
	for range 10 {
		feed()
	}
	if n, failures := made.Load(), tasks.Stats()[0].SnapshotFailures; n != 2 || failures != 1 {
		t.Errorf("%d tasks were made, and snapshots failed %d times", n, failures)
	}
	r.makeSnapshotsTopic()
	r.log = nil // the old reader reads the deleted topic
	ahead.Store(int64(2 * time.Minute))
	for rest.Failures() > 0 {
		feed()
	}
	if len(r.snapshots()) == 0 {
		t.Error("there is no snapshot")
	}
}
