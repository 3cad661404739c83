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

// SnapshotRest is the pause of a partition's snapshots after one could not be written. It outlives
// the partition's task: the records of a snapshot are part of the transactions of turns, so a
// failed write ends the task, and its successor would fail in the same way. Snapshots pause after
// every failed turn that had such a record, whatever the cause: a snapshot that is a minute late
// costs nothing.
type SnapshotRest struct {
	mu       sync.Mutex
	waits    *retry.Backoff
	failures int // since the latest complete snapshot
	since    int64
	wait     int64
}

// NewSnapshotRest returns the rest of one partition's snapshots. Snapshots may be written at once.
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
// tasks and their steady clocks. If the clock was set back, a pause ends early, which does no harm.
func (r *SnapshotRest) over(nowMillis int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return nowMillis < r.since || nowMillis >= r.since+r.wait
}
