package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// A member that was paused for longer than its session learns from the answer to its next heartbeat
// that it was removed. That answer is not an acknowledgement: until its partitions are revoked, the
// member must not believe that it still owns them.
func TestRefusedHeartbeatIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	r, fake := newFakeRig(t)
	var (
		paused   clock
		refusing atomic.Bool
	)
	fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if !refusing.Load() {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
	assigned, lost := make(chan struct{}, 8), make(chan bool, 8)
	var membership atomic.Pointer[kafka.Membership]
	joined, err := r.cluster.Join(kafka.MembershipConfig{
		Group:    sumGroup,
		Topic:    numbersTopic,
		Now:      paused.Now,
		Assigned: func([]int32) { assigned <- struct{}{} },
		Revoked:  func([]int32) {},
		Lost:     func([]int32) { lost <- membership.Load().Fresh() },
	})
	if err != nil {
		t.Fatal(err)
	}
	membership.Store(joined)
	<-assigned
	testkit.Eventually(t, "the member is fresh", joined.Fresh)

	paused.jump(kafka.SessionTimeout)
	if joined.Fresh() {
		t.Error("a member is fresh that was not heard of for a whole session")
	}
	testkit.Eventually(t, "the member is fresh again", joined.Fresh)
	refusing.Store(true) // earlier acknowledgements no longer count
	if fresh := <-lost; fresh {
		t.Error("the refusal of a heartbeat made the member fresh")
	}
	refusing.Store(false)
	<-assigned
	testkit.Eventually(t, "the member is fresh again", joined.Fresh)
	if err := joined.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// The health check says why the group does not admit a process, and what to do.
func TestAGroupThatRefusesIsNamed(t *testing.T) {
	t.Parallel()
	for code, want := range map[int16]string{
		kerr.InvalidSessionTimeout.Code:    "group.min.session.timeout.ms",
		kerr.GroupAuthorizationFailed.Code: "READ on the group",
		kerr.GroupMaxSizeReached.Code:      "GROUP_MAX_SIZE_REACHED",
	} {
		r, fake := newFakeRig(t)
		var refusing atomic.Bool
		refusing.Store(true)
		fake.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = code
			return resp, nil, refusing.Load()
		})
		m, err := r.cluster.Join(kafka.MembershipConfig{
			Group:    sumGroup,
			Topic:    numbersTopic,
			Now:      time.Now,
			Assigned: func([]int32) {},
			Revoked:  func([]int32) {},
			Lost:     func([]int32) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, want,
			func() bool { err := m.Check(); return err != nil && strings.Contains(err.Error(), want) })
		refusing.Store(false)
		testkit.Eventually(t, "the member is taken in", func() bool { return m.Check() == nil })
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// named joins the group under a static name and reports its assignments and losses.
func (r *rig) named(name string) (m *kafka.Membership, assigned, taken chan []int32) {
	r.t.Helper()
	cluster := r.cluster
	cluster.InstanceID = name
	assigned, taken = make(chan []int32, 8), make(chan []int32, 8)
	m, err := cluster.Join(kafka.MembershipConfig{
		Group:    sumGroup,
		Topic:    numbersTopic,
		Now:      time.Now,
		Assigned: func(p []int32) { assigned <- p },
		Revoked:  func(p []int32) { taken <- p },
		Lost:     func(p []int32) { taken <- p },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return m, assigned, taken
}

// A member that leaves and returns under its name gets its partition back at once. The other member
// keeps its own partition.
func TestAMemberThatComesBackUnderItsNameHasItsPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, assigned, taken := r.named("one")
	<-assigned
	other, othersAssigned, othersTaken := r.named("two")
	<-taken
	theirs := <-othersAssigned
	testkit.Eventually(t, "both are fresh", func() bool { return first.Fresh() && other.Fresh() })

	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := <-taken // a revoked task still drains
	again, assigned, _ := r.named("one")
	if got := <-assigned; len(got) != 1 || got[0] != ours[0] || got[0] == theirs[0] {
		t.Errorf("it had %v, and has %v back; the other has %v", ours, got, theirs)
	}
	testkit.Eventually(t, "it is fresh", again.Fresh)
	select {
	case p := <-othersTaken:
		t.Errorf("%v was taken from the other", p)
	case p := <-othersAssigned:
		t.Errorf("%v was given to the other", p)
	default:
	}
	if !other.Fresh() {
		t.Error("the other is not in the group any more")
	}
	for _, m := range []*kafka.Membership{again, other} {
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// If two members use one name, the group accepts the later one, and the earlier one loses its
// partitions. Both keep rejoining, and a health check says why.
func TestOfTwoWithOneNameTheLaterCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, assigned, taken := r.named("one")
	<-assigned
	testkit.Eventually(t, "the first is fresh", first.Fresh)
	second, assigned, _ := r.named("one")
	<-assigned
	<-taken
	testkit.Eventually(t, "it is said", func() bool {
		err := errors.Join(first.Check(), second.Check())
		return err != nil && strings.Contains(err.Error(), "a name of its own")
	})
	if err := first.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if err := second.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// A member whose process died is removed by its name. The other members get its partitions,
// although its session would last for minutes.
func TestTheMemberOfADeadProcessIsRemovedBeforeItsSessionEnds(t *testing.T) {
	r := newRig(t)
	const session = 5 * time.Minute // the longest that the embedded broker accepts
	joined := make(chan struct{}, 8)
	dead, err := kgo.NewClient(
		kgo.SeedBrokers(r.cluster.Brokers...), kgo.InstanceID("one"),
		kgo.ConsumerGroup(r.cluster.Prefix+sumGroup), kgo.SessionTimeout(session),
		kgo.RebalanceTimeout(session),
		kgo.ConsumeTopics(r.cluster.Prefix+numbersTopic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			joined <- struct{}{}
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	<-joined
	dead.CloseAllowingRebalance() // a static member does not leave the group this way

	heir, assigned, _ := r.named("two")
	named := r.cluster
	named.InstanceID = "one"
	from, err := named.RemoveMember(t.Context(), "nobody's", sumGroup)
	if err != nil || !slices.Equal(from, []string{sumGroup}) {
		t.Fatalf("removed from %v (%v)", from, err)
	}
	for have := 0; have < 2; {
		have += len(<-assigned)
	}
	if from, err := named.RemoveMember(t.Context(), sumGroup); err != nil || len(from) > 0 {
		t.Errorf("removed again, from %v (%v)", from, err)
	}
	if err := heir.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// If a live process uses a dead one's name, the group removes the live one. The live process
// notices and joins again.
func TestAMemberThatIsRemovedWhileItLivesJoinsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	member, assigned, taken := r.named("one")
	<-assigned
	named := r.cluster
	named.InstanceID = "one"
	if from, err := named.RemoveMember(t.Context(), sumGroup); err != nil || len(from) != 1 {
		t.Fatalf("removed from %v (%v)", from, err)
	}
	<-taken
	<-assigned
	testkit.Eventually(t, "it is fresh", member.Fresh)
	if err := member.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
