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
	// stalledAfter, plus the interval of a slow network, is how long no ledger may be read: twelve
	// ledgers of the public network, and as long as the alert LumenhookLedgerStalled waits.
	stalledAfter  = time.Minute
	watchInterval = time.Second
	// If no ledger was read for probeAfter, the source is probed every probeInterval, for at most
	// probeMax.
	probeAfter    = 5 * time.Second
	probeInterval = 15 * time.Second
	probeMax      = 20 * time.Second
)

// health tracks whether ledgers are being read. It is safe for concurrent use.
type health struct {
	mu      sync.Mutex
	probed  time.Time
	readAt  time.Time // last ledger read, or start of following
	ledger  uint32    // the last one; 0 if none since following began
	problem error     // of the latest attempt; nil after a ledger was read
	other   error     // non-nil if the source serves another chain
}

func (h *health) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readAt, h.ledger = now, 0
}

// interrupted notes why following was interrupted or cannot begin; nil if it can.
func (h *health) interrupted(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = why
}

// read notes that a ledger was read, and returns the error that had interrupted following.
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

// check returns an error if no ledgers are being read. A permanent error counts immediately.
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
		return fmt.Errorf("no ledger was read since %s (%s ago); retrying: %w", since,
			age, h.problem)
	case h.ledger == 0:
		return fmt.Errorf("no ledger was read since %s (%s ago), when following began: the source "+
			"returns none", since, age)
	}
	return fmt.Errorf("no ledger was read since %s (%s ago): the source does not return ledger %d",
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

func (f *Follower) stalledAfter() time.Duration { return stalledAfter + f.config.CloseInterval }

func (f *Follower) ledgerRead(sequence uint32) {
	if healed := f.health.read(sequence, f.config.Now()); healed != nil {
		f.config.Logger.Info("ledgers are read again", "ledger", sequence, "after", healed)
	}
}

// otherChain notes whether the source serves another chain, and reports whether that changed.
func (h *health) otherChain(why error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = (h.other == nil) != (why == nil)
	h.other = why
	return changed
}

func (h *health) probeDue(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := now.Sub(h.readAt) >= probeAfter && now.Sub(h.probed) >= probeInterval
	if due {
		h.probed = now
	}
	return due
}

// probe finds out whether the source returns nothing because it serves another chain. It also
// restarts reading at the cursor if the deployment has switched to another chain (StartChain),
// which would otherwise become apparent only with the next ledger.
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
		return // no answer
	}
	if f.health.otherChain(err) && err != nil {
		f.config.Logger.Error("the source serves another chain than the one that was followed",
			"err", err)
	}
}

// keepWatch logs once when reading stalls and once when it continues, because a stalled or silent
// source returns no error.
func (f *Follower) keepWatch(ctx context.Context) {
	cursor, err := OpenCursor(f.config.Cluster, f.config.Passphrase)
	if err != nil {
		f.config.Logger.Error("cannot watch whether ledgers are being read", "err", err)
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
