package follower

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// stalledAfter is how long no ledger may be read, beside the time between two ledgers of a
	// slow network: twelve ledgers of the public network, which closes one every five seconds.
	// The alert LumenhookLedgerStalled waits as long.
	stalledAfter = time.Minute
	// watchInterval is the time between looks at whether ledgers are still read.
	watchInterval = time.Second
)

// health is whether ledgers are being read. It may be used by many goroutines.
type health struct {
	mu      sync.Mutex
	readAt  time.Time // when the last ledger was read, or following began
	ledger  uint32    // the last one; 0: none since following began
	problem error     // of the latest try; nil: a ledger was read since
}

// begin notes that following begins.
func (h *health) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readAt, h.ledger = now, 0
}

// interrupted notes why following was interrupted, or could not begin; nil: it can.
func (h *health) interrupted(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = why
}

// read notes that a ledger was read, and reports what had interrupted following.
func (h *health) read(ledger uint32, now time.Time) (healed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	healed = h.problem
	h.readAt, h.ledger, h.problem = now, ledger, nil
	return healed
}

func (h *health) trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}

// check returns why no ledgers are read; nil: they are, or none was due yet.
func (h *health) check(now time.Time, bound time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	age, since := now.Sub(h.readAt).Round(time.Second), h.readAt.UTC().Format(time.RFC3339)
	switch {
	case h.problem != nil:
		return fmt.Errorf("no ledger was read since %s (%s ago), and reading is tried again: %w", since,
			age, h.problem)
	case age < bound:
		return nil
	case h.ledger == 0:
		return fmt.Errorf("no ledger was read since %s (%s ago), when following began: the source gives "+
			"none", since, age)
	}
	return fmt.Errorf("no ledger was read since %s (%s ago): the source does not give ledger %d", since,
		age, h.ledger+1)
}

// stalledAfter is how long no ledger may be read.
func (f *Follower) stalledAfter() time.Duration { return stalledAfter + f.config.CloseInterval }

// ledgerRead notes that a ledger was read.
func (f *Follower) ledgerRead(sequence uint32) {
	if healed := f.health.read(sequence, f.config.Now()); healed != nil {
		f.config.Logger.Info("ledgers are read again", "ledger", sequence, "after", healed)
	}
}

// keepWatch logs once when no ledger was read for long, and once when one is again. A source
// that stands still, or does not answer, says nothing itself.
func (f *Follower) keepWatch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	stalled := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := f.health.check(f.config.Now(), f.stalledAfter())
		switch problem := f.health.trouble(); {
		case err != nil && problem == nil && !stalled:
			f.config.Logger.Warn("reading ledgers has stalled", "err", err)
			stalled = true
		case err == nil && stalled:
			f.config.Logger.Info("reading ledgers continues after it had stalled")
			stalled = false
		}
	}
}
