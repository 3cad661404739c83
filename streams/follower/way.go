package follower

import (
	"context"
	"sync"
	"time"
)

// way is the live ledger's right of way: what runs beside it waits, for a while,
// until nothing live is being worked on.
type way struct {
	mu   sync.Mutex
	free chan struct{} // closed when the way is free; nil: it is
}

// take is called when there is live work.
func (w *way) take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.free == nil {
		w.free = make(chan struct{})
	}
}

// leave is called when there is none.
func (w *way) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.free != nil {
		close(w.free)
		w.free = nil
	}
}

// await waits until the way is free, or for so long.
func (w *way) await(ctx context.Context, most time.Duration) {
	w.mu.Lock()
	free := w.free
	w.mu.Unlock()
	if free == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-free:
	case <-timer.C:
	}
}
