package streams

import (
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	firstRestart = 100 * time.Millisecond
	lastRestart  = 10 * time.Second
	steadyAfter  = time.Minute // a task that ran this long is tried at once again
)

// Restarts is when a task that failed runs again: after a wait that doubles with each
// failure, and only while the group confirms that the partition is ours. One whose
// partition has gone to another would take it over from that one, who may be just about
// to act on a state that is then behind.
type Restarts struct {
	waits *retry.Backoff
	began int64 // the latest run, by the steady clock
	at    int64 // the next run, at the soonest
	wait  int64
}

// NewRestarts makes the restarts of one task. Jitter is that of retry.Policy.
func NewRestarts(jitter func() float64) *Restarts {
	return &Restarts{
		waits: retry.Policy{First: firstRestart, Last: lastRestart, Jitter: jitter}.Backoff(),
	}
}

// Began takes note of a run.
func (r *Restarts) Began(steadyMillis int64) { r.began = steadyMillis }

// Failed takes note of the end of one.
func (r *Restarts) Failed(steadyMillis int64) {
	if steadyMillis-r.began > steadyAfter.Milliseconds() {
		r.waits.Reset()
	}
	r.wait = r.waits.Next().Milliseconds()
	r.at = steadyMillis + r.wait
}

// Wait is how long to wait before asking again; 0: the task may run.
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
