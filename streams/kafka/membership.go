package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SessionTimeout is how long a member keeps its partitions without a heartbeat. It bounds failover.
const SessionTimeout = 6 * time.Second

// MembershipConfig configures a membership in a group that divides the partitions of Topic.
type MembershipConfig struct {
	Group string
	Topic string
	// Assigned is called with newly assigned partitions. It must not block.
	Assigned func(partitions []int32)
	// Revoked is called with partitions to give up. The group waits until it returns.
	Revoked func(partitions []int32)
	// Lost is called with partitions that other members may already own.
	Lost func(partitions []int32)
	// RevokeMax is how long Revoked may take. The group waits for two transaction timeouts longer.
	RevokeMax time.Duration
	// Standbys, if set, moves partitions only to warm members.
	Standbys *StandbyConfig
	Now      func() time.Time
}

// Membership is a membership in a group that divides the partitions of a topic. The owner of a
// partition reads and writes it with its own clients.
type Membership struct {
	client        *kgo.Client
	group         string
	fullName      func(topic string) string
	instance      *string // nil without a static name
	topic         string
	now           func() Moment
	acknowledged  atomic.Pointer[Moment] // when the latest acknowledged heartbeat was sent
	prompt        chan struct{}          // requests an immediate heartbeat
	placed        atomic.Bool            // a rebalance has completed since it was expelled
	failure       groupFailure
	standbys      *StandbyConfig
	warming       atomic.Pointer[[]int32] // standbys that the group waits for
	rejoinBackoff *rejoinBackoff
	stop          context.CancelFunc
	stopped       chan struct{}
}

type groupFailure struct{ latest atomic.Pointer[error] }

// OnGroupManageError implements kgo.HookGroupManageError.
func (f *groupFailure) OnGroupManageError(err error) { f.latest.Store(&err) }

// heartbeatEvery bounds how late a member learns of a rebalance. A session survives several lost
// heartbeats.
const heartbeatEvery = SessionTimeout / 12

// Join joins a group. The callbacks run until Leave returns.
func (c Cluster) Join(cfg MembershipConfig) (*Membership, error) {
	ctx, stop := context.WithCancel(context.Background())
	joined := cfg.Now()
	m := &Membership{
		group:         c.fullName(cfg.Group),
		fullName:      c.fullName,
		topic:         c.fullName(cfg.Topic),
		now:           func() Moment { return MomentOf(cfg.Now(), joined) },
		prompt:        make(chan struct{}, 1),
		standbys:      cfg.Standbys,
		rejoinBackoff: newRejoinBackoff(),
		stop:          stop,
		stopped:       make(chan struct{}),
	}
	only := func(f func([]int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, by map[string][]int32) {
			if partitions := by[c.fullName(cfg.Topic)]; len(partitions) > 0 {
				f(partitions)
			}
		}
	}
	// Called when the group continues without this member, even if it had no partitions.
	expelled := func(ctx context.Context, client *kgo.Client, by map[string][]int32) {
		m.placed.Store(false)
		m.acknowledged.Store(nil) // acknowledgements of the earlier membership no longer count
		only(cfg.Lost)(ctx, client, by)
	}
	// Called at the end of each rebalance, even if nothing is assigned.
	assigned := func(ctx context.Context, client *kgo.Client, by map[string][]int32) {
		select {
		case m.prompt <- struct{}{}:
		default:
		}
		only(cfg.Assigned)(ctx, client, by)
		m.placed.Store(true)
	}
	var static []kgo.Opt
	if c.InstanceID != "" {
		m.instance = &c.InstanceID
		static = append(static, kgo.InstanceID(c.InstanceID))
	}
	client, err := c.client(append(static,
		kgo.ConsumerGroup(m.group),
		kgo.ConsumeTopics(c.fullName(cfg.Topic)),
		kgo.Balancers(m.balancer()),
		kgo.SessionTimeout(SessionTimeout),
		kgo.HeartbeatInterval(heartbeatEvery),
		kgo.RebalanceTimeout(cfg.RevokeMax+2*TransactionTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(only(cfg.Revoked)),
		kgo.OnPartitionsLost(expelled),
		kgo.WithHooks(&m.failure),
	)...)
	if err != nil {
		stop()
		return nil, err
	}
	// The group only assigns partitions. This client does not consume them.
	client.PauseFetchTopics(c.fullName(cfg.Topic))
	m.client = client
	go m.sendHeartbeats(ctx)
	return m, nil
}

func (m *Membership) balancer() kgo.GroupBalancer {
	if m.standbys == nil {
		return kgo.CooperativeStickyBalancer()
	}
	return &warmBalancer{topic: m.topic, cfg: *m.standbys, assigned: m.standBy}
}

func (m *Membership) standBy(a assignmentData) {
	m.warming.Store(&a.Warming)
	m.standbys.StandBy(a.Standbys)
}

func (m *Membership) rejoinWhenWarm() {
	waiting := m.warming.Load()
	if waiting != nil && m.rejoinBackoff.due(m.standbys.warmed(*waiting), m.now().SteadyMillis) {
		m.client.ForceRebalance()
	}
}

// Fresh reports whether the group acknowledged a heartbeat within the session timeout. If not,
// other members may already own the partitions, even if no callback has run, for example after this
// process was paused.
func (m *Membership) Fresh() bool {
	sent := m.acknowledged.Load()
	return sent != nil && sent.Fresh(m.now())
}

// Check returns an error while the member is not fresh or has not completed a rebalance.
func (m *Membership) Check() error {
	if m.placed.Load() && m.Fresh() {
		return nil
	}
	why := m.failure.latest.Load()
	switch {
	case why == nil:
		return fmt.Errorf("streams: the brokers have not recently confirmed that this process is a "+
			"member of group %s", m.group)
	case errors.Is(*why, kerr.InvalidSessionTimeout):
		return fmt.Errorf("streams: cannot join group %s: the brokers do not allow a session "+
			"timeout of %s (set group.min.session.timeout.ms to %d or less, and "+
			"group.max.session.timeout.ms above): %w",
			m.group, SessionTimeout, SessionTimeout.Milliseconds(), *why)
	case errors.Is(*why, kerr.FencedInstanceID):
		return fmt.Errorf("streams: another process has joined group %s with the same name: give each "+
			"process a name of its own (--node-name): %w", m.group, *why)
	case errors.Is(*why, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("streams: cannot join group %s: this process's user needs READ on the "+
			"group (`lumenhook topics acls` prints the ACLs of each role): %w", m.group, *why)
	}
	return fmt.Errorf("streams: this process is not a member of group %s: %w", m.group, *why)
}

// sendHeartbeats sends additional heartbeats, because the client does not expose the responses to
// its own.
func (m *Membership) sendHeartbeats(ctx context.Context) {
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
		m.rejoinWhenWarm()
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
	// Freshness counts from the request: the group's own timer starts no earlier.
	asked := m.now()
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress):
		m.acknowledged.Store(&asked)
		m.failure.latest.Store(nil)
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err,
		kerr.FencedInstanceID):
		if member, generation := m.client.GroupMetadata(); member == req.MemberID &&
			generation == req.Generation {
			m.acknowledged.Store(nil) // the group has continued without this member
		}
	}
}

// Leave gives up all partitions, calling Revoked, and leaves the group. A member with a static name
// stays in the group until its session expires, so that it can return.
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

// Moment is a point in time on the wall clock, which can be set, and on a steady clock, which never
// goes back but may stop while the machine sleeps.
type Moment struct{ WallMillis, SteadyMillis int64 }

// MomentOf converts a time. began is the zero of the steady clock.
func MomentOf(now, began time.Time) Moment {
	return Moment{WallMillis: now.UnixMilli(), SteadyMillis: now.Sub(began).Milliseconds()}
}

// Fresh reports whether the group's acknowledgement of a request sent at this moment still counts,
// so that no other member has been given the partitions. It uses the larger age, because either
// clock may be wrong.
func (sent Moment) Fresh(now Moment) bool {
	age := max(now.SteadyMillis-sent.SteadyMillis, now.WallMillis-sent.WallMillis)
	return age < SessionTimeout.Milliseconds()
}

// RemoveMember removes the member with this process's InstanceID from groups, so that its
// partitions move immediately, and returns the groups that it was in.
//
// Call it only if the process with this name is known to be dead. If it is not, nothing is lost:
// its transactional ids are fenced, as after an expired session, and it rejoins.
func (c Cluster) RemoveMember(ctx context.Context, groups ...string) (from []string, err error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	was, failed := make([]bool, len(groups)), make([]error, len(groups))
	var asked sync.WaitGroup // a silent coordinator must not delay the other groups
	for i, group := range groups {
		asked.Go(func() { was[i], failed[i] = c.removeFrom(ctx, admin, group) })
	}
	asked.Wait()
	for i, group := range groups {
		if was[i] {
			from = append(from, group)
		}
	}
	return from, errors.Join(failed...)
}

func (c Cluster) removeFrom(
	ctx context.Context, admin *kadm.Client, group string,
) (was bool, err error) {
	name := c.fullName(group)
	request := kadm.LeaveGroup(name).InstanceIDs(c.InstanceID).Reason("its process died")
	removed, err := admin.LeaveGroup(ctx, request)
	if err == nil {
		err = removed.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.GroupIDNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("streams: removing %s from group %s: %w", c.InstanceID, name, err)
	}
	_, was = removed[c.InstanceID]
	return was, nil
}
