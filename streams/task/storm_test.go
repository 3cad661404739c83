package task_test

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

// stormy is the number of members that come and go.
const stormy = 12

// Members join and leave, one at a time and two at a time, while numbers are fed. Partitions move
// before their tasks have started and while they drain. Each number must be processed once.
func TestAStormOfMembers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fed := 0
	feed := func() {
		t.Helper()
		r.feed(fed+1, fed+20)
		fed += 20
	}
	leave := r.member()
	for n := range stormy {
		feed()
		another := r.member()
		if n%3 == 0 { // a third joins while the second is being admitted
			third := r.member()
			third()
		}
		feed()
		leave()
		leave = another
	}
	feed()
	r.wantJournalOf(fed)
	leave()
}

// member starts a process in the group, with tasks for its partitions. Its states are deleted when
// the test ends.
func (r *rig) member() (leave func()) {
	r.t.Helper()
	dir := r.t.TempDir()
	tasks := task.NewTasks(func(p int32) task.Runner {
		cfg := r.config(dir+"/"+string('0'+p), nil)
		cfg.Partition = p
		return task.NewTask(cfg)
	}, r.cluster.Logger)
	m, err := r.cluster.Join(kafka.MembershipConfig{
		Group:     sumGroup,
		Topic:     numbersTopic,
		Now:       time.Now,
		RevokeMax: time.Second,
		Assigned:  tasks.Assigned,
		Revoked:   tasks.Revoked,
		Lost:      tasks.Lost,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := m.Leave(r.t.Context()); err != nil {
			r.t.Error(err)
		}
	}
}

// wantJournalOf waits until the journal has all numbers up to last, and checks that each is there
// once.
func (r *rig) wantJournalOf(last int) {
	r.t.Helper()
	testkit.Eventually(r.t, "all numbers are in the journal",
		func() bool { return len(r.journal()) >= last })
	for key, n := range r.journal() {
		if n != 1 {
			r.t.Errorf("%s is in the journal %d times", key, n)
		}
	}
}
