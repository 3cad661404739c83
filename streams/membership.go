package streams

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// SessionTimeout is after how long without a heartbeat a member loses its
// partitions. It bounds fail-over.
const SessionTimeout = 6 * time.Second

// MembershipConfig says which group divides the partitions of which topic.
type MembershipConfig struct {
	Group string
	Topic string
	// Assigned is told of partitions that became ours. It must not block.
	Assigned func(partitions []int32)
	// Revoked is told of partitions that are given up. The group waits until it
	// returns: what is under way ends first.
	Revoked func(partitions []int32)
	// Lost is told of partitions that others may own by now.
	Lost func(partitions []int32)
	Now  func() time.Time
}

// Membership is a place in a group that owns partitions. It only divides them:
// whoever owns one reads and writes through clients of its own.
type Membership struct {
	client        *kgo.Client
	now           func() time.Time
	lastHeartbeat atomic.Int64
}

// Join enters a group. The callbacks run until Leave.
func (c Cluster) Join(cfg MembershipConfig) (*Membership, error) {
	m := &Membership{now: cfg.Now}
	only := func(f func([]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, by map[string][]int32) {
			if partitions := by[c.fullName(cfg.Topic)]; len(partitions) > 0 {
				f(partitions)
			}
		}
	}
	client, err := c.client(
		kgo.ConsumerGroup(c.fullName(cfg.Group)),
		kgo.ConsumeTopics(c.fullName(cfg.Topic)),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(SessionTimeout),
		kgo.HeartbeatInterval(SessionTimeout/4),
		kgo.RebalanceTimeout(2*transactionTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(only(cfg.Assigned)),
		kgo.OnPartitionsRevoked(only(cfg.Revoked)),
		kgo.OnPartitionsLost(only(cfg.Lost)),
		kgo.WithHooks(heartbeats{m}),
	)
	if err != nil {
		return nil, err
	}
	// Nothing is consumed through the group.
	client.PauseFetchTopics(c.fullName(cfg.Topic))
	m.client = client
	return m, nil
}

// Fresh tells whether the group acknowledged a heartbeat within the session
// timeout. If not, others may own our partitions already, whatever the
// callbacks have said so far: a process that was paused finds out here.
func (m *Membership) Fresh() bool {
	return m.now().UnixMilli()-m.lastHeartbeat.Load() < SessionTimeout.Milliseconds()
}

// Leave gives up all partitions, calling Revoked, and the place in the group.
func (m *Membership) Leave(ctx context.Context) error {
	err := m.client.LeaveGroupContext(ctx)
	m.client.Close()
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// heartbeats notes when the group last answered.
type heartbeats struct{ m *Membership }

const (
	keyJoinGroup = 11
	keyHeartbeat = 12
	keySyncGroup = 14
)

func (h heartbeats) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if e2e.Err() != nil {
		return
	}
	switch key {
	case keyJoinGroup, keyHeartbeat, keySyncGroup:
		// Counted from when the request was sent: the group's own clock began
		// no earlier.
		h.m.lastHeartbeat.Store(h.m.now().Add(-e2e.DurationE2E()).UnixMilli())
	}
}
