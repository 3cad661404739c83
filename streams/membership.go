package streams

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	client       *kgo.Client
	group        string
	topic        string
	now          func() time.Time
	acknowledged atomic.Pointer[time.Time] // when the latest heartbeat that the group took was sent
	prompt       chan struct{}             // asks for a heartbeat at once
	stop         context.CancelFunc
	stopped      chan struct{}
}

// heartbeatEvery lets a session outlive three heartbeats that were lost.
const heartbeatEvery = SessionTimeout / 4

// Join enters a group. The callbacks run until Leave.
func (c Cluster) Join(cfg MembershipConfig) (*Membership, error) {
	ctx, stop := context.WithCancel(context.Background())
	m := &Membership{group: c.fullName(cfg.Group), topic: c.fullName(cfg.Topic), now: cfg.Now, prompt: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{})}
	only := func(f func([]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, by map[string][]int32) {
			if partitions := by[c.fullName(cfg.Topic)]; len(partitions) > 0 {
				f(partitions)
			}
		}
	}
	assigned := func(partitions []int32) {
		select {
		case m.prompt <- struct{}{}:
		default:
		}
		cfg.Assigned(partitions)
	}
	client, err := c.client(
		kgo.ConsumerGroup(m.group),
		kgo.ConsumeTopics(c.fullName(cfg.Topic)),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(SessionTimeout),
		kgo.HeartbeatInterval(heartbeatEvery),
		kgo.RebalanceTimeout(2*transactionTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(only(assigned)),
		kgo.OnPartitionsRevoked(only(cfg.Revoked)),
		kgo.OnPartitionsLost(only(cfg.Lost)),
	)
	if err != nil {
		stop()
		return nil, err
	}
	// Nothing is consumed through the group.
	client.PauseFetchTopics(c.fullName(cfg.Topic))
	m.client = client
	go m.beat(ctx)
	return m, nil
}

// Fresh tells whether the group acknowledged a heartbeat within the session
// timeout. If not, others may own our partitions already, whatever the
// callbacks have said so far: a process that was paused finds out here.
func (m *Membership) Fresh() bool {
	at := m.acknowledged.Load()
	if at == nil {
		return false
	}
	// The monotonic clock stands still while a machine sleeps, the wall clock can
	// be set back: the larger age counts.
	now := m.now()
	return max(now.Sub(*at), now.Round(0).Sub(at.Round(0))) < SessionTimeout
}

// beat sends heartbeats beside the client's own: only who reads the answer knows
// whether it acknowledges, and the client keeps that to itself.
func (m *Membership) beat(ctx context.Context) {
	defer close(m.stopped)
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.prompt:
		case <-tick.C:
		}
		m.heartbeat(ctx)
	}
}

func (m *Membership) heartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, SessionTimeout)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = m.group
	if req.MemberID, req.Generation = m.client.GroupMetadata(); req.MemberID == "" {
		return
	}
	// Counted from when the request was sent: the group's own clock begins no
	// earlier.
	asked := m.now()
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return
	}
	// While the group divides its partitions anew, members stay what they are.
	if err := kerr.ErrorForCode(resp.ErrorCode); err == nil || errors.Is(err, kerr.RebalanceInProgress) {
		m.acknowledged.Store(&asked)
	}
}

// Leave gives up all partitions, calling Revoked, and the place in the group.
func (m *Membership) Leave(ctx context.Context) error {
	err := m.client.LeaveGroupContext(ctx)
	m.stop()
	<-m.stopped
	m.client.Close()
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
