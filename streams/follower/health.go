package follower

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	// stalledAfter is how long no ledger may be read, in addition to the interval of a slow
	// network: twelve ledgers of the public network, which closes one every five seconds. The alert
	// LumenhookLedgerStalled waits as long.
	stalledAfter = time.Minute
	// watchInterval is the time between checks whether ledgers are still read.
	watchInterval = time.Second
	// If no ledger was read for probeAfter, the source is probed for the reason, and again after
	// each probeInterval, for probeMax at most.
	probeAfter    = 5 * time.Second
	probeInterval = 15 * time.Second
	probeMax      = 20 * time.Second
)

// health tracks whether ledgers are being read. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	probed  time.Time // when the source was last probed
	readAt  time.Time // when the last ledger was read, or following began
	ledger  uint32    // the last one; 0: no ledger since following began
	problem error     // of the latest attempt; nil: a ledger was read since
	other   error     // the source serves another chain; nil: nothing proves that
}

// begin records that following begins.
func (h *health) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readAt, h.ledger = now, 0
}

// interrupted records why following was interrupted, or could not begin; nil: it can.
func (h *health) interrupted(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = why
}

// read records that a ledger was read, and returns the error that had interrupted following.
func (h *health) read(ledger uint32, now time.Time) (healed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	healed = h.problem
	h.readAt, h.ledger, h.problem, h.other = now, ledger, nil, nil
	return healed
}

func (h *health) trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}

// check returns why no ledgers are read. It returns nil if they are, or may be again within the
// bound. A permanent error counts at once.
func (h *health) check(now time.Time, bound time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	age, since := now.Sub(h.readAt).Round(time.Second), h.readAt.UTC().Format(time.RFC3339)
	_, lasting := errors.AsType[domain.LedgerError](h.problem)
	switch {
	case h.other != nil:
		return h.other
	case age < bound && !lasting:
		return nil
	case h.problem != nil:
		return fmt.Errorf("no ledger was read since %s (%s ago), and reading is tried again: %w", since,
			age, h.problem)
	case h.ledger == 0:
		return fmt.Errorf("no ledger was read since %s (%s ago), when following began: the source gives "+
			"none", since, age)
	}
	return fmt.Errorf("no ledger was read since %s (%s ago): the source does not give ledger %d",
		since, age, h.ledger+1)
}

// stalled is check, unless the reason was already logged.
func (h *health) stalled(now time.Time, bound time.Duration) error {
	h.mu.Lock()
	known := h.problem != nil || h.other != nil
	h.mu.Unlock()
	if known {
		return nil
	}
	return h.check(now, bound)
}

// stalledAfter is how long no ledger may be read.
func (f *Follower) stalledAfter() time.Duration { return stalledAfter + f.config.CloseInterval }

// ledgerRead records that a ledger was read.
func (f *Follower) ledgerRead(sequence uint32) {
	if healed := f.health.read(sequence, f.config.Now()); healed != nil {
		f.config.Logger.Info("ledgers are read again", "ledger", sequence, "after", healed)
	}
}

// otherChain records whether the source serves another chain, and reports whether that changed.
func (h *health) otherChain(why error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = (h.other == nil) != (why == nil)
	h.other = why
	return changed
}

// probeDue reports whether to probe the source.
func (h *health) probeDue(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := now.Sub(h.readAt) >= probeAfter && now.Sub(h.probed) >= probeInterval
	if due {
		h.probed = now
	}
	return due
}

// probe finds out why the source returns nothing: it may serve another chain. It also notices if
// the deployment was told to follow another chain (StartChain), and restarts reading at the cursor.
// Otherwise that would be noticed only with the next ledger.
func (f *Follower) probe(ctx context.Context, cursor *Cursor) {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	last := f.reading.last.Load()
	if last == nil {
		return
	}
	newest, found, err := cursor.Newest(ctx)
	if err == nil && found &&
		domain.ChainBase(newest.Sequence) != domain.ChainBase(last.Sequence) {
		f.config.Logger.Info("the deployment follows another chain", "ledger", newest.Sequence+1)
		f.interrupt()
		return
	}
	if f.config.Probe == nil || last.Sequence == 0 {
		return
	}
	err = CheckChain(ctx, f.config.Probe, *last)
	if is := errors.Is(err, ErrOtherChain); err != nil && !is {
		return // it does not answer
	}
	if f.health.otherChain(err) && err != nil {
		f.config.Logger.Error("the source serves another chain than the one that was followed",
			"err", err)
	}
}

// keepWatch logs once when no ledger was read for a long time, and once when one is again: a source
// that stalls or does not answer returns no error.
func (f *Follower) keepWatch(ctx context.Context) {
	cursor, err := OpenCursor(f.config.Cluster, f.config.Passphrase)
	if err != nil {
		f.config.Logger.Error("whether ledgers are read is not watched", "err", err)
		return
	}
	defer cursor.Close()
	stalled := false
	for retry.Sleep(ctx, watchInterval) == nil {
		if f.health.probeDue(f.config.Now()) {
			f.probe(ctx, cursor)
		}
		err := f.health.stalled(f.config.Now(), f.stalledAfter())
		switch {
		case err != nil && !stalled:
			f.config.Logger.Warn("reading ledgers has stalled", "err", err)
			stalled = true
		case err == nil && stalled:
			f.config.Logger.Info("reading ledgers continues after it had stalled")
			stalled = false
		}
	}
}
