package projections

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// askedFor is how long after a read the blocks are written as for somebody who reads.
const askedFor = 2 * time.Second

// asking is what the readers of this process have asked of the history. Nobody else's
// reads are known. The zero value has no reader.
type asking struct {
	mu    sync.Mutex
	at    time.Time                // of the latest read
	until map[topicPartition]int64 // offsets that are waited for, and what was
	wake  func()                   // called when something is asked; may be nil
}

// asked notes that somebody reads, and which offsets of the journal he waits for.
func (a *asking) asked(now time.Time, ends map[int32]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = now
	until := maps.Clone(a.until) // others hold the former one
	if until == nil {
		until = make(map[topicPartition]int64)
	}
	for partition, end := range ends {
		at := topicPartition{schemas.TopicJournal, partition}
		until[at] = max(until[at], end)
	}
	a.until = until
	if a.wake != nil {
		a.wake()
	}
}

// onAsked sets what is called when something is asked.
func (a *asking) onAsked(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
}

// reading reports whether somebody has read lately, and the offsets that were waited for.
func (a *asking) reading(now time.Time) (lately bool, until map[topicPartition]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.at.IsZero() && now.Sub(a.at) < askedFor, a.until
}

// Ask tells the projector that somebody reads: for two seconds blocks do not wait
// UnaskedWait. If ends are given, the block that brings the journal there is written at
// once, and Ask returns when the tables have it, as far as the projector fills them, or ctx
// ends.
func (p *Projector) Ask(ctx context.Context, ends map[int32]int64) {
	if !p.lacks(ends) {
		ends = nil
	}
	p.asking.asked(p.cfg.Now(), ends)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if !p.lacks(ends) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// lacks reports whether the tables lack records of the assigned partitions.
func (p *Projector) lacks(ends map[int32]int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, end := range ends {
		next, ours := p.next[topicPartition{schemas.TopicJournal, partition}]
		if ours && next < end {
			return true
		}
	}
	return false
}

// tell wakes who waits for p.next. It is called with the lock held.
func (p *Projector) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}
