package streams

import (
	"context"
	"errors"
	"fmt"
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
	// RevokeMax is how long Revoked may take: the group waits for so long, and
	// twice a transaction's time, before it goes on without this member.
	RevokeMax time.Duration
	Now       func() time.Time
}

// Membership is a place in a group that owns partitions. It only divides them:
// whoever owns one reads and writes through clients of its own.
type Membership struct {
	client       *kgo.Client
	group        string
	instance     *string // nil: the group knows us by no name of ours
	topic        string
	now          func() Moment
	acknowledged atomic.Pointer[Moment] // when the latest heartbeat that the group took was sent
	prompt       chan struct{}          // asks for a heartbeat at once
	failure      groupFailure
	stop         context.CancelFunc
	stopped      chan struct{}
}

// groupFailure is why the client last fell out of the group, as the client tells.
type groupFailure struct{ latest atomic.Pointer[error] }

// OnGroupManageError is a hook of the client.
func (f *groupFailure) OnGroupManageError(err error) { f.latest.Store(&err) }

// heartbeatEvery bounds how late members hear that the partitions are divided anew,
// since brokers say so in their answers. A session outlives many that are lost.
const heartbeatEvery = SessionTimeout / 12

// Join enters a group. The callbacks run until Leave.
func (c Cluster) Join(cfg MembershipConfig) (*Membership, error) {
	ctx, stop := context.WithCancel(context.Background())
	joined := cfg.Now()
	m := &Membership{
		group:   c.fullName(cfg.Group),
		topic:   c.fullName(cfg.Topic),
		now:     func() Moment { return momentOf(cfg.Now(), joined) },
		prompt:  make(chan struct{}, 1),
		stop:    stop,
		stopped: make(chan struct{}),
	}
	lost := func(partitions []int32) {
		m.acknowledged.Store(nil) // whatever was acknowledged, it was before
		cfg.Lost(partitions)
	}
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
	var static []kgo.Opt
	if c.InstanceID != "" {
		m.instance = &c.InstanceID
		static = append(static, kgo.InstanceID(c.InstanceID))
	}
	client, err := c.client(append(static,
		kgo.ConsumerGroup(m.group),
		kgo.ConsumeTopics(c.fullName(cfg.Topic)),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(SessionTimeout),
		kgo.HeartbeatInterval(heartbeatEvery),
		kgo.RebalanceTimeout(cfg.RevokeMax+2*transactionTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(only(assigned)),
		kgo.OnPartitionsRevoked(only(cfg.Revoked)),
		kgo.OnPartitionsLost(only(lost)),
		kgo.WithHooks(&m.failure),
	)...)
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

// Fresh reports whether the group acknowledged a heartbeat within the session
// timeout. If not, others may own our partitions already, whatever the
// callbacks have said so far: a process that was paused finds out here.
func (m *Membership) Fresh() bool {
	sent := m.acknowledged.Load()
	return sent != nil && sent.Fresh(m.now())
}

// Check fails while the member is not fresh, and says why as far as it is known.
func (m *Membership) Check() error {
	if m.Fresh() {
		return nil
	}
	why := m.failure.latest.Load()
	switch {
	case why == nil:
		return fmt.Errorf("streams: the brokers have not confirmed lately that this process is one of "+
			"group %s", m.group)
	case errors.Is(*why, kerr.InvalidSessionTimeout):
		return fmt.Errorf("streams: group %s does not take this process in: the brokers refuse a "+
			"session timeout of %s (set group.min.session.timeout.ms to %d or less, and "+
			"group.max.session.timeout.ms above): %w",
			m.group, SessionTimeout, SessionTimeout.Milliseconds(), *why)
	case errors.Is(*why, kerr.FencedInstanceID):
		return fmt.Errorf("streams: another process is in group %s under this one's name: give each a "+
			"name of its own (--node-name): %w", m.group, *why)
	case errors.Is(*why, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("streams: group %s does not take this process in: its user needs READ on the "+
			"group (`lumenhook topics acls` prints the ACLs of each role): %w", m.group, *why)
	}
	return fmt.Errorf("streams: this process is not one of group %s: %w", m.group, *why)
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
	req.Group, req.InstanceID = m.group, m.instance
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
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress):
		// While the group divides its partitions anew, members stay what they are.
		m.acknowledged.Store(&asked)
		m.failure.latest.Store(nil)
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err,
		kerr.FencedInstanceID):
		if member, generation := m.client.GroupMetadata(); member == req.MemberID &&
			generation == req.Generation {
			m.acknowledged.Store(nil) // the group has gone on without this member
		}
	}
}

// Leave gives up all partitions, calling Revoked, and the place in the group. A
// member that has a name keeps its place, for one that comes back under it.
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
