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

// SnapshotRest is for how long a partition goes on without snapshots after one could not be
// written. It outlives the partition's task: the records of a snapshot are in the
// transactions of turns, so that a failure of theirs ends the task, and the next one would
// fail of the same. Whatever the cause of a failed turn that had such a record, snapshots
// rest: one that is a minute late costs nothing.
type SnapshotRest struct {
	mu       sync.Mutex
	waits    *retry.Backoff
	failures int // since the latest whole snapshot
	since    int64
	wait     int64
}

// NewSnapshotRest makes the rest of one partition's snapshots, which may be written at once.
func NewSnapshotRest() *SnapshotRest {
	return &SnapshotRest{waits: retry.Policy{First: firstRest, Last: lastRest}.Backoff()}
}

// Failures returns how often a snapshot could not be written since the latest whole one.
func (r *SnapshotRest) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// failed begins a rest, and returns how long it is.
func (r *SnapshotRest) failed(nowMillis int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := r.waits.Next()
	r.failures, r.since, r.wait = r.failures+1, nowMillis, wait.Milliseconds()
	return wait
}

// succeeded takes note of a whole snapshot.
func (r *SnapshotRest) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits.Reset()
	r.failures, r.wait = 0, 0
}

// over reports whether a snapshot may be written. Times are of the wall clock, since no task
// lives as long; one that was set back ends a rest early, which does no harm.
func (r *SnapshotRest) over(nowMillis int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return nowMillis < r.since || nowMillis >= r.since+r.wait
}
