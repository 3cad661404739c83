package task_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// standMember is a member of a group whose members keep standbys for each other's partitions.
type standMember struct {
	r     *rig
	tasks *task.Tasks
	group *kafka.Membership
	// gate, if set, blocks this process's standbys until it is closed.
	gate chan struct{}

	mu       sync.Mutex
	owned    map[int32]bool
	standing map[int32]bool
	refolded map[int32]int // records that the partition's latest task folded from the journal
}

type counting struct {
	task.Handler[store.Claimed, none]
	before func()
}

func (c counting) Fold(b *store.Batch, rec kafka.Record) error {
	c.before()
	return c.Handler.Fold(b, rec)
}

func (r *rig) standMember(replicas int, gate chan struct{}) *standMember {
	r.t.Helper()
	p := &standMember{
		r:        r,
		gate:     gate,
		owned:    make(map[int32]bool),
		standing: make(map[int32]bool),
		refolded: make(map[int32]int),
	}
	dir := r.t.TempDir()
	config := func(partition int32) task.Config[store.Claimed, none] {
		return summing(r.cluster, fmt.Sprintf("%s/%d", dir, partition), partition, nil)
	}
	p.tasks = task.NewTasks(func(partition int32) task.Runner {
		cfg := config(partition)
		cfg.NewHandler = func() task.Handler[store.Claimed, none] {
			p.note(func() { p.refolded[partition] = 0 })
			return counting{&summer{}, func() { p.note(func() { p.refolded[partition]++ }) }}
		}
		cfg.Inputs = []string{numbersTopic}
		return task.NewTask(cfg)
	}, r.cluster.Logger)
	p.tasks.NewStandby = func(partition int32, following func()) task.Standby {
		cfg := config(partition)
		cfg.NewHandler = func() task.Handler[store.Claimed, none] {
			return counting{&summer{}, p.wait}
		}
		return task.NewStandbyTask(task.StandbyTaskConfig[store.Claimed, none]{
			CoreConfig:  cfg.CoreConfig,
			Cluster:     r.cluster,
			OnFollowing: following,
		})
	}
	p.join(replicas)
	return p
}

func (p *standMember) wait() {
	if p.gate != nil {
		<-p.gate
	}
}

func (p *standMember) join(replicas int) {
	p.r.t.Helper()
	changed := func(with func([]int32), owned bool) func([]int32) {
		return func(partitions []int32) {
			p.note(func() {
				for _, n := range partitions {
					p.owned[n] = owned
				}
			})
			with(partitions)
		}
	}
	var err error
	p.group, err = p.r.cluster.Join(kafka.MembershipConfig{
		Group:     sumGroup,
		Topic:     numbersTopic,
		Now:       time.Now,
		RevokeMax: time.Second,
		Assigned:  changed(p.tasks.Assigned, true),
		Revoked:   changed(p.tasks.Revoked, false),
		Lost:      changed(p.tasks.Lost, false),
		Standbys: &kafka.StandbyConfig{
			Replicas:      replicas,
			AcceptableLag: 20,
			Folded:        p.tasks.Folded,
			Lag:           p.tasks.Lag,
			StandBy: func(partitions []int32) {
				p.note(func() {
					clear(p.standing)
					for _, n := range partitions {
						p.standing[n] = true
					}
				})
				p.tasks.StandBy(partitions)
			},
		},
	})
	if err != nil {
		p.r.t.Fatal(err)
	}
}

func (p *standMember) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *standMember) leave() {
	if err := p.group.Leave(context.Background()); err != nil {
		p.r.t.Error(err)
	}
	p.tasks.Close()
}

// owns returns the partitions that a process owns, and stands those that it has standbys for.
func (p *standMember) owns() []int32   { return p.those(p.owned) }
func (p *standMember) stands() []int32 { return p.those(p.standing) }

func (p *standMember) those(are map[int32]bool) []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Sorted(maps.Keys(are))
	return slices.DeleteFunc(list, func(n int32) bool { return !are[n] })
}

// folds reports whether a process has count standbys that have folded all current journal records.
func (p *standMember) folds(count int) bool {
	stats := p.tasks.StandbyStats()
	ends, err := p.r.cluster.NewEnds()
	if err != nil {
		p.r.t.Fatal(err)
	}
	defer ends.Close()
	by, err := ends.Of(p.r.t.Context(), sumsTopic)
	if err != nil {
		p.r.t.Fatal(err)
	}
	for _, s := range stats {
		// The journal ends with a marker, which is skipped.
		if !s.Following || s.Folded < by[s.Partition]-1 {
			return false
		}
	}
	return len(stats) == count
}

func (r *rig) wantAll(last int) {
	r.t.Helper()
	r.wantJournalOf(last)
}

// A member that joins gets a partition once it has folded the partition's journal. Until then the
// owner keeps working.
func TestAPartitionMovesToAWarmMemberOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.standMember(0, nil)
	r.feed(1, 100)
	r.wantAll(100)

	gate := make(chan struct{})
	joins := r.standMember(0, gate)
	testkit.Eventually(t, "the new member warms a partition",
		func() bool { return len(joins.stands()) == 1 })
	r.feed(101, 200)
	r.wantAll(200)
	if got := owner.owns(); len(got) != 2 {
		t.Errorf("the owner has %v while the other is cold", got)
	}
	warmed := joins.stands()
	close(gate)
	testkit.Eventually(t, "the partition moves", func() bool { return len(joins.owns()) == 1 })
	if got := joins.owns(); !slices.Equal(got, warmed) {
		t.Errorf("%v was warmed and %v moved", warmed, got)
	}
	r.feed(201, 300)
	r.wantAll(300)
	owner.leave()
	r.feed(301, 400)
	r.wantAll(400)
	joins.leave()
}

// When a partition's owner is gone, the member that has its standby gets the partition and folds
// nothing again.
func TestAStandbyHandsItsStateOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.standMember(1, nil), r.standMember(1, nil)
	r.feed(1, 300)
	r.wantAll(300)
	testkit.Eventually(t, "each stands by for the other", func() bool {
		return len(first.owns()) == 1 && len(second.owns()) == 1 &&
			slices.Equal(first.owns(), second.stands()) &&
			slices.Equal(second.owns(), first.stands()) && first.folds(1) && second.folds(1)
	})
	orphaned := first.owns()[0]
	first.leave()
	r.feed(301, 400)
	r.wantAll(400)
	second.mu.Lock()
	if n := second.refolded[orphaned]; n != 0 {
		t.Errorf("the standby's heir folded %d facts of its partition", n)
	}
	second.mu.Unlock()
	second.leave()
}

// A standby adds nothing to the journal or the inputs. It takes over no transactional ID, so the
// owner keeps working.
func TestAStandbyWritesNothing(t *testing.T) {
	r := newRig(t)
	stop := r.run(r.task(r.dir, nil))
	r.feed(1, 100)
	r.wantJournal(r.onPartition(0))
	before := r.ends()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cfg := summing(r.cluster, t.TempDir(), 0, func() task.Handler[store.Claimed, none] {
		return &summer{}
	})
	standby := task.NewStandbyTask(task.StandbyTaskConfig[store.Claimed, none]{
		CoreConfig: cfg.CoreConfig,
		Cluster:    r.cluster,
	})
	go func() { ended <- standby.Run(ctx) }()
	testkit.Eventually(t, "it has folded everything", func() bool {
		return standby.Stats().Folded >= before[sumsTopic][0]-1
	})
	if after := r.ends(); !maps.EqualFunc(before, after, maps.Equal) {
		t.Errorf("the topics ended at %v, and at %v after", before, after)
	}
	r.feed(101, 200)
	r.wantJournal(r.onPartition(0))
	testkit.Eventually(t, "it follows", func() bool {
		return standby.Stats().Folded >= r.ends()[sumsTopic][0]-1
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	wantSum(t, cfg.Store, r.journalSum(0))
}

func (r *rig) ends() map[string]map[int32]int64 {
	r.t.Helper()
	asking, err := r.cluster.NewEnds()
	if err != nil {
		r.t.Fatal(err)
	}
	defer asking.Close()
	by := make(map[string]map[int32]int64)
	for _, topic := range []string{sumsTopic, numbersTopic} {
		if by[topic], err = asking.Of(r.t.Context(), topic); err != nil {
			r.t.Fatal(err)
		}
	}
	return by
}

func (r *rig) journalSum(partition int32) (sum int) {
	r.t.Helper()
	for _, rec := range r.read(sumsTopic) {
		if rec.Partition == partition {
			var n int
			if _, err := fmt.Sscan(string(rec.Value), &n); err != nil {
				r.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

func wantSum(t *testing.T, cfg store.Config, want int) {
	t.Helper()
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readSum(s.Get)
	if err != nil || got != want {
		t.Errorf("the copy's sum is %d (%v), want %d", got, err, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Members come and go while partitions are warmed up, given up and handed over. Each number must be
// processed once.
func TestAStormOfMembersWithStandbys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fed := 0
	feed := func() {
		t.Helper()
		r.feed(fed+1, fed+40)
		fed += 40
	}
	feed()
	members := []*standMember{r.standMember(1, nil)}
	for n := range stormy {
		feed()
		members = append(members, r.standMember(1, nil))
		if n%3 == 0 { // a third joins while the second is being admitted
			members = append(members, r.standMember(1, nil))
			members[0].leave()
			members = members[1:]
		}
		feed()
		members[0].leave()
		members = members[1:]
	}
	feed()
	r.wantAll(fed)
	for _, m := range members {
		m.leave()
	}
}
