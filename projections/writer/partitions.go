package writer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// partitions are the assigned partitions. Its methods are the callbacks of a
// kafka.Membership.
type partitions struct {
	mu      sync.Mutex
	owned   []int32
	changed chan struct{} // closed and replaced when owned changes
	session chan struct{} // closed when the latest session has ended
}

func newPartitions() *partitions {
	ended := make(chan struct{})
	close(ended)
	return &partitions{changed: make(chan struct{}), session: ended}
}

// begin returns the partitions that a session is to project, and a channel that is closed when they
// change. The session must call ended at its end.
func (p *partitions) begin() (owned []int32, changed <-chan struct{}, ended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	session := make(chan struct{})
	p.session = session
	return slices.Clone(p.owned), p.changed, func() { close(session) }
}

// list returns the assigned partitions.
func (p *partitions) list() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.owned)
}

func (p *partitions) assigned(more []int32) {
	p.change(func(owned []int32) []int32 { return append(owned, more...) })
}

// revoked waits until the session that had the partitions has written its rows, so that their next
// owner need not collect them again.
func (p *partitions) revoked(fewer []int32) {
	<-p.without(fewer)
}

// lost does not wait: others may already own the partitions, and writing a fact twice changes no
// answer (P2).
func (p *partitions) lost(fewer []int32) { p.without(fewer) }

func (p *partitions) without(fewer []int32) (sessionEnded <-chan struct{}) {
	return p.change(func(owned []int32) []int32 {
		return slices.DeleteFunc(owned, func(one int32) bool { return slices.Contains(fewer, one) })
	})
}

func (p *partitions) change(f func([]int32) []int32) (sessionEnded <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = f(p.owned)
	slices.Sort(p.owned)
	p.owned = slices.Compact(p.owned)
	close(p.changed)
	p.changed = make(chan struct{})
	return p.session
}

const (
	// commitEvery is how often a projector commits its position.
	commitEvery = 10 * time.Second
	commitMax   = 5 * time.Second
)

// keepCommitting commits the position of the tables to the group until ctx ends, and then once
// more: records before it may be deleted (package retention). Where a projector continues is stored
// only in the tables.
func (p *Projector) keepCommitting(ctx context.Context, m *kafka.Membership) {
	var committed map[topicPartition]int64
	for ended := false; !ended; {
		ended = retry.Sleep(ctx, commitEvery) != nil
		p.mu.Lock()
		next := maps.Clone(p.next)
		p.mu.Unlock()
		if len(next) == 0 || maps.Equal(next, committed) {
			continue
		}
		committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitMax)
		err := m.Commit(committing, offsetsOf(next))
		cancel()
		switch {
		case err == nil:
			committed = next
		case errors.Is(err, kafka.ErrNotMember):
			// Another projector has the partitions, or this one is joining again.
		default:
			p.cfg.Logger.Warn("the projector cannot commit how far the history is; until it can, nothing "+
				"beyond is deleted from the topics", "error", err)
		}
	}
}
