package writer

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
)

// askedFor is how long after a read blocks are written without waiting.
const askedFor = 2 * time.Second

// asking records this process's reads of the history. It doesn't know about other processes' reads.
// The zero value is ready to use.
type asking struct {
	mu    sync.Mutex
	at    time.Time                // time of the latest read
	until map[topicPartition]int64 // offsets that readers wait for, or have waited for
	wake  func()                   // called on each read; may be nil
}

func (a *asking) asked(now time.Time, ends map[int32]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = now
	until := maps.Clone(a.until) // copy: other goroutines use the old map
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

func (a *asking) onAsked(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
}

// reading reports whether there was a recent read, and which offsets readers wait for.
func (a *asking) reading(now time.Time) (lately bool, until map[topicPartition]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.at.IsZero() && now.Sub(a.at) < askedFor, a.until
}

// Ask tells the projector that there is a reader, so that for two seconds blocks don't wait
// UnaskedWait. If ends are given, the block that reaches them in the journal is written
// immediately. Ask then returns when this projector has written them, as far as it fills the
// tables, or when ctx ends.
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

// lacks reports whether the tables lack records before ends, in partitions assigned to this
// projector.
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

// notify wakes the goroutines that wait for p.next. The lock must be held.
func (p *Projector) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
