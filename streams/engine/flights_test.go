package engine_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// An attempt that is in flight when its task ends belongs to the next task, whenever its outcome
// arrives. It is made once and recorded once (G7).
func TestFlightsOutliveTheirTask(t *testing.T) {
	taken := domain.AttemptResult{SentAtMillis: hour, StatusCode: 200}
	next := func(c *core) {
		if err := c.Close(); err != nil {
			c.t.Fatal(err)
		}
		c.openTask()
	}
	for name, end := range map[string]func(c *core, done func(domain.AttemptResult)){
		"the outcome comes to the next task": func(c *core, done func(domain.AttemptResult)) {
			next(c)
			done(taken)
		},
		"the outcome comes between the tasks": func(c *core, done func(domain.AttemptResult)) {
			if err := c.Close(); err != nil {
				c.t.Fatal(err)
			}
			done(taken)
			c.openTask()
		},
		"the turn that took the outcome failed": func(c *core, done func(domain.AttemptResult)) {
			done(taken)
			if _, err := c.Decide(kafka.Moment{WallMillis: c.now}); err != nil {
				c.t.Fatal(err)
			}
			next(c)
		},
		"two tasks later": func(c *core, done func(domain.AttemptResult)) {
			next(c)
			done(taken)
			next(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCore(t)
			c.turn(creation("ep_1"))
			c.pay("ep_1", "evt_1")
			end(c, c.done[0])
			var types []string
			for _, f := range c.turn() {
				types = append(types, f.Body.FactType())
			}
			if !slices.Equal(types, []string{"AttemptMade"}) || len(c.attempts) != 1 {
				t.Errorf("%v were recorded of %d attempts", types, len(c.attempts))
			}
			c.pay("ep_1", "evt_2") // the outcome has freed the place
			if len(c.attempts) != 2 {
				t.Errorf("%d attempts were made", len(c.attempts))
			}
		})
	}
}

// This is TestFlightsOutliveTheirTask with a broker and a receiver. Either the group reassigns the
// partitions, as after a paused process, or a commit fails.
func TestAttemptsOutliveTheirTask(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(r *rig){
		"the group took the partitions": func(r *rig) { r.expel(r.member("")) },
		"a commit was fenced": func(r *rig) {
			for p := range partitions {
				r.fence(r.cluster.Prefix + "engine-" + strconv.Itoa(p))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.timeout = brokertest.Patience // the test itself releases the blocked attempt
			defer r.start(r.dir, hour)()
			id := r.endpoint(1)
			arrived, answer := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(answer) })
			defer release() // otherwise a failing test would wait for the receiver forever
			r.receiver.answer(func(w http.ResponseWriter, req *http.Request, _ int) {
				arrived <- struct{}{}
				<-answer
				w.WriteHeader(http.StatusOK)
			})
			held := r.pay(id, 1, 1)[0]
			<-arrived
			r.receiver.answer(status(200))
			disturb(r)
			// A later event shows that another task is working.
			other := r.endpoint(2)
			r.pay(other, 2, 1)
			r.eventuallyIn(other, domain.StateDelivered, 1)
			release()
			r.eventuallyIn(id, domain.StateDelivered, 1)
			_, deliveries := r.fold(id)
			if posts := r.receiver.attempts(held); posts != 1 || deliveries[held].Attempts != 1 {
				t.Errorf("%d posts, and %d attempts in the journal", posts, deliveries[held].Attempts)
			}
		})
	}
}

// member waits until the engine's group has a member other than the former one.
func (r *rig) member(former string) (id string) {
	r.t.Helper()
	testkit.Eventually(r.t, "a member of the group", func() bool {
		err := r.cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
			groups, err := admin.DescribeGroups(ctx, r.cluster.Prefix+"engine")
			for _, m := range groups[r.cluster.Prefix+"engine"].Members {
				id = m.MemberID
			}
			return err
		})
		return err == nil && id != "" && id != former
	})
	return id
}

// expel removes a member from the group and waits until it has joined again. The member finds out
// at its next heartbeat.
func (r *rig) expel(member string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = r.cluster.Prefix + "engine"
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID, leave.MemberID = member, member
	leave.Members = append(leave.Members, one)
	if _, err := leave.RequestWith(r.t.Context(), client); err != nil {
		r.t.Fatal(err)
	}
	r.member(member)
}

// fence takes over a transactional ID, as another owner would.
func (r *rig) fence(transactionalID string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(transactionalID))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	if _, _, err := client.ProducerID(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}
