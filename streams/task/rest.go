package task

import (
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	firstRest = time.Minute
	lastRest  = time.Hour
)

// SnapshotRest is the pause of a partition's snapshots after a failure. It outlives the partition's
// task: a snapshot's records are part of the turns' transactions, so a failed write stops the task,
// and its successor would fail in the same way. Any failure of a turn with such records starts a
// pause, because a late snapshot costs nothing.
type SnapshotRest struct {
	mu       sync.Mutex
	waits    *retry.Backoff
	failures int // since the latest complete snapshot
	since    int64
	wait     int64
}

// NewSnapshotRest returns the rest of one partition, which is over until a failure.
func NewSnapshotRest() *SnapshotRest {
	return &SnapshotRest{waits: retry.Policy{First: firstRest, Last: lastRest}.Backoff()}
}

// Failures returns the number of failed snapshots since the latest complete one.
func (r *SnapshotRest) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func (r *SnapshotRest) failed(nowMillis int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := r.waits.Next()
	r.failures, r.since, r.wait = r.failures+1, nowMillis, wait.Milliseconds()
	return wait
}

func (r *SnapshotRest) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits.Reset()
	r.failures, r.wait = 0, 0
}

// over reports whether a snapshot may be written. It uses the wall clock, because a pause outlives
// tasks and their steady clocks. Setting the clock back ends it early, which is harmless.
func (r *SnapshotRest) over(nowMillis int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return nowMillis < r.since || nowMillis >= r.since+r.wait
}
