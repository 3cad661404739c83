package projections

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// commitEvery is how often a projector commits how far the history is.
	commitEvery = 10 * time.Second
	commitMax   = 5 * time.Second
)

// keepCommitting commits to the group how far the tables are, until ctx ends, and then once
// more: records below may be deleted (package retention). Where a projector continues is in
// the tables alone.
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
			// Another projector has the partitions, or this one joins again.
		default:
			p.cfg.Logger.Warn("the projector cannot commit how far the history is; until it can, nothing "+
				"beyond is deleted from the topics", "error", err)
		}
	}
}
