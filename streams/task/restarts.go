package task

import (
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	firstRestart = 100 * time.Millisecond
	lastRestart  = 10 * time.Second
	steadyAfter  = time.Minute // a task that ran this long is restarted without a wait
)

// Restarts decides when a failed task runs again: after a wait that doubles with each
// failure, and only while the group confirms that this process owns the partition.
// Otherwise the task would take the partition over from its new owner, which may be about
// to act on its state.
type Restarts struct {
	waits *retry.Backoff
	began int64 // start of the latest run, by the steady clock
	at    int64 // earliest time of the next run
	wait  int64
}

// NewRestarts makes the restarts of one task. Jitter is that of retry.Policy.
func NewRestarts(jitter func() float64) *Restarts {
	return &Restarts{
		waits: retry.Policy{First: firstRestart, Last: lastRestart, Jitter: jitter}.Backoff(),
	}
}

// Began records the start of a run.
func (r *Restarts) Began(steadyMillis int64) { r.began = steadyMillis }

// Failed records the end of a run.
func (r *Restarts) Failed(steadyMillis int64) {
	if steadyMillis-r.began > steadyAfter.Milliseconds() {
		r.waits.Reset()
	}
	r.wait = r.waits.Next().Milliseconds()
	r.at = steadyMillis + r.wait
}

// Wait returns how long to wait before calling again; 0: the task may run.
func (r *Restarts) Wait(steadyMillis int64, ours bool) (millis int64) {
	if steadyMillis < r.at {
		return r.at - steadyMillis
	}
	if !ours {
		r.at = steadyMillis + r.wait
		return r.wait
	}
	return 0
}
