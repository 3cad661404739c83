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

// asking records the reads of the history by this process. Reads of other processes are unknown.
// The zero value has no reader.
type asking struct {
	mu    sync.Mutex
	at    time.Time                // of the latest read
	until map[topicPartition]int64 // offsets that a reader waits for, or waited for
	wake  func()                   // called at each read; may be nil
}

// asked records a read, and the offsets of the journal that it waits for.
func (a *asking) asked(now time.Time, ends map[int32]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = now
	until := maps.Clone(a.until) // others hold the former map
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

// onAsked sets the function that is called at each read.
func (a *asking) onAsked(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
}

// reading reports whether there was a recent read, and the offsets that readers wait for.
func (a *asking) reading(now time.Time) (lately bool, until map[topicPartition]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.at.IsZero() && now.Sub(a.at) < askedFor, a.until
}

// Ask tells the projector that there is a reader: for two seconds blocks do not wait UnaskedWait.
// If ends are given, the block that reaches them in the journal is written at once. Ask then
// returns when the tables have it, as far as this projector fills them, or ctx ends.
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

// notify wakes the goroutines that wait for p.next. It is called with the lock held.
func (p *Projector) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
