package follower

import (
	"context"
	"sync"
	"time"
)

// priority is the live ledger's priority: what runs beside it waits, for a bounded time,
// until no live ledger is being processed.
type priority struct {
	mu   sync.Mutex
	free chan struct{} // closed when there is no live work; nil: there is none
}

// begin marks the start of live work.
func (p *priority) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = make(chan struct{})
	}
}

// end marks its end.
func (p *priority) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		close(p.free)
		p.free = nil
	}
}

// await waits until there is no live work, or for at most that long.
func (p *priority) await(ctx context.Context, most time.Duration) {
	p.mu.Lock()
	free := p.free
	p.mu.Unlock()
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
