package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	// A loop that ended restarts after restartFirst. The wait doubles each time, up to restartLast.
	restartFirst = 500 * time.Millisecond
	restartLast  = 30 * time.Second
	// healedAfter is how long a restarted loop must run before it counts as working.
	healedAfter = 15 * time.Second
)

var errEnded = errors.New("stopped without an error")

// loop is the work of a part. It is restarted whenever it ends before it is stopped.
type loop struct {
	name  string
	run   func(context.Context) error
	stack *Stack

	mu     sync.Mutex
	runs   int
	failed error // how the previous run ended; nil after healedAfter
}

// failing returns how the loop last ended, until it has worked again for a while.
func (l *loop) failing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *loop) end(failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs++
	l.failed = failed
}

// heal marks the loop as working if the run is still the current one. It reports whether the loop
// had failed.
func (l *loop) heal(run int) (had bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had = l.runs == run && l.failed != nil; had {
		l.failed = nil
	}
	return had
}

// keepRunning runs the loop until ctx is done. It logs each change between working and failing
// once.
func (l *loop) keepRunning(ctx context.Context) {
	log := l.stack.Logger.With("part", l.name)
	waits := retry.Policy{
		First:     restartFirst,
		Last:      restartLast,
		OnFailure: retry.Warn(log, "a part has failed and is restarted; the others continue"),
	}.Backoff()
	for n := 0; ; n++ {
		healed := time.AfterFunc(healedAfter, func() {
			if l.heal(n) {
				log.Info("the part works again")
			}
		})
		err := l.run(ctx)
		if !healed.Stop() {
			waits.Reset()
		}
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				log.Warn("stopping the part", "error", err)
			}
			return
		}
		if err == nil {
			err = errEnded
		}
		l.end(fmt.Errorf("failed and is being restarted: %w", err))
		if l.stack.Restarted != nil {
			l.stack.Restarted(l.name)
		}
		if waits.Wait(ctx, err) != nil {
			return
		}
	}
}
