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

// partitions are the assigned partitions. Its methods are callbacks of a kafka.Membership.
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

func (p *partitions) begin() (owned []int32, changed <-chan struct{}, ended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	session := make(chan struct{})
	p.session = session
	return slices.Clone(p.owned), p.changed, func() { close(session) }
}

func (p *partitions) list() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.owned)
}

func (p *partitions) assigned(more []int32) {
	p.change(func(owned []int32) []int32 { return append(owned, more...) })
}

// revoked waits until the session that had the partitions has written its rows, so that the next
// owner doesn't have to collect them again.
func (p *partitions) revoked(fewer []int32) {
	<-p.without(fewer)
}

// lost doesn't wait, because others may already own the partitions. Writing a fact twice changes no
// result (P2).
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
	commitEvery = 10 * time.Second
	commitMax   = 5 * time.Second
)

// keepCommitting commits the tables' position to the group until ctx ends, and once more
// afterwards. Earlier records may then be deleted (package retention). The position at which a
// projector resumes is stored in the tables instead.
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
			// Another projector has the partitions, or this one is rejoining.
		default:
			p.cfg.Logger.Warn("the projector cannot commit how far the history is; until it can, nothing "+
				"beyond is deleted from the topics", "error", err)
		}
	}
}
