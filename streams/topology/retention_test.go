package topology_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Topics of a rig. Two groups read events, and states are restored from both topics.
const (
	events = "events"
	parts  = "parts"
)

// rig is a broker with records of two ages. Each partition has ten records from an hour ago and ten
// from now.
type rig struct {
	t       *testing.T
	cluster kafka.Cluster
	deleter *kafka.Deleter
	now     time.Time
}

const recordsOfAnAge = 10

func newRig(t *testing.T) *rig {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := brokertest.Start(t)
	r := &rig{t: t, cluster: b.Cluster(logger), now: time.Now()}
	var specs []kafka.TopicSpec
	for _, name := range []string{events, parts} {
		specs = append(specs, kafka.TopicSpec{
			Name:              name,
			Partitions:        2,
			ReplicationFactor: b.Replicas(),
		})
	}
	if err := r.cluster.EnsureTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	r.append(r.now.Add(-time.Hour))
	r.append(r.now)
	var err error
	if r.deleter, err = r.cluster.NewDeleter(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.deleter.Close)
	return r
}

func (r *rig) append(at time.Time) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	for _, topic := range []string{events, parts} {
		for i := range 2 * recordsOfAnAge {
			record := &kgo.Record{
				Topic:     r.cluster.Prefix + topic,
				Partition: int32(i % 2),
				Value:     []byte("a record"),
				Timestamp: at,
			}
			if err := client.ProduceSync(r.t.Context(), record).FirstErr(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// commit commits positions for a group that has no other member.
func (r *rig) commit(group string, done kafka.Offsets) {
	r.t.Helper()
	assigned := make(chan struct{}, 10)
	m, err := r.cluster.Join(kafka.MembershipConfig{
		Group:    group,
		Topic:    events,
		Assigned: func([]int32) { assigned <- struct{}{} },
		Revoked:  func([]int32) {},
		Lost:     func([]int32) {},
		Now:      time.Now,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	<-assigned
	if err := m.Commit(r.t.Context(), done); err != nil {
		r.t.Fatal(err)
	}
	if err := m.Leave(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// run runs retention for both topics. It owns only partition 0.
func (r *rig) run(change func(*topology.RetentionConfig)) *topology.Retention {
	cfg := topology.RetentionConfig{
		Cluster: r.cluster,
		Topics: []topology.RetainedTopic{
			{Name: events, Readers: []string{"projector", "engine"}, Restored: true},
			{Name: parts, Restored: true, AtOnce: true},
		},
		Keep: time.Minute,
		Owned: func() []topology.RetainedPartition {
			return []topology.RetainedPartition{{Restores: map[string]int64{events: 18, parts: 7}}}
		},
		Every:  time.Millisecond,
		Now:    func() time.Time { return r.now },
		Logger: r.cluster.Logger,
	}
	change(&cfg)
	kept := topology.NewRetention(cfg)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error)
	go func() { ended <- kept.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	return kept
}

func (r *rig) wantStatuses(kept *topology.Retention, want ...topology.RetentionStatus) {
	r.t.Helper()
	have := kept.Statuses()
	testkit.Eventually(r.t, fmt.Sprintf("a round finds %+v", want), func() bool {
		have = kept.Statuses()
		return slices.Equal(have, want)
	})
}

func (r *rig) wantStarts(topic string, want map[int32]int64) {
	r.t.Helper()
	have, err := r.deleter.Starts(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		r.t.Errorf("%s begins at %v, want %v", topic, have, want)
	}
}

// Nothing is deleted while a reader has no position, because it may need everything. After that,
// each reader in turn holds the records that it has not read.
func TestNothingThatIsNeededIsDeleted(t *testing.T) {
	r := newRig(t)
	kept := r.run(func(*topology.RetentionConfig) {})
	ofParts := topology.RetentionStatus{Topic: parts, First: 7, Safe: 7, HeldBy: "state", Known: true}
	r.wantStatuses(kept, topology.RetentionStatus{Topic: events, HeldBy: "projector"}, ofParts)

	r.commit("projector", kafka.Offsets{events: {0: 5, 1: 20}})
	r.wantStatuses(kept, topology.RetentionStatus{Topic: events, HeldBy: "engine"}, ofParts)
	r.wantStarts(events, map[int32]int64{0: 0, 1: 0})

	r.commit("engine", kafka.Offsets{events: {0: 20, 1: 20}})
	r.wantStatuses(kept,
		topology.RetentionStatus{Topic: events, First: 5, Safe: 5, HeldBy: "projector", Known: true},
		ofParts)

	r.commit("rebuild", kafka.Offsets{events: {0: 6}}) // a group that the topic does not list
	r.commit("projector", kafka.Offsets{events: {0: 19, 1: 20}})
	r.wantStatuses(kept,
		topology.RetentionStatus{Topic: events, First: 6, Safe: 6, HeldBy: "rebuild", Known: true},
		ofParts)

	r.commit("rebuild", kafka.Offsets{events: {0: 20}})
	r.wantStatuses(kept, // the other ten are too young, and the last older one stays
		topology.RetentionStatus{Topic: events, First: 9, Safe: 18, HeldBy: "state", Known: true},
		ofParts)
	r.wantStarts(events, map[int32]int64{0: 9, 1: 0}) // partition 1 is not owned
	r.wantStarts(parts, map[int32]int64{0: 7, 1: 0})
}

// While a task is being restored, its state is not known and holds everything.
func TestAStateThatIsNotKnownHoldsEverything(t *testing.T) {
	r := newRig(t)
	r.commit("projector", kafka.Offsets{events: {0: 20}})
	r.commit("engine", kafka.Offsets{events: {0: 20}})
	kept := r.run(func(cfg *topology.RetentionConfig) {
		cfg.Owned = func() []topology.RetainedPartition { return []topology.RetainedPartition{{}} }
	})
	r.wantStatuses(kept, topology.RetentionStatus{Topic: events, HeldBy: "state"},
		topology.RetentionStatus{Topic: parts, HeldBy: "state"})
	r.wantStarts(events, map[int32]int64{0: 0, 1: 0})
}

// Retention keeps everything, or limits records by age.
func TestWhatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		keep  time.Duration
		first int64
	}{
		"everything":       {first: 0},
		"an hour and more": {keep: 2 * time.Hour, first: 0},
		"a minute":         {keep: time.Minute, first: 9}, // the last older one stays
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.commit("projector", kafka.Offsets{events: {0: 20}})
			r.commit("engine", kafka.Offsets{events: {0: 20}})
			kept := r.run(func(cfg *topology.RetentionConfig) {
				cfg.Keep = c.keep
			})
			r.wantStatuses(kept,
				topology.RetentionStatus{Topic: events, First: c.first, Safe: 18, HeldBy: "state", Known: true},
				topology.RetentionStatus{Topic: parts, First: 7, Safe: 7, HeldBy: "state", Known: true})
		})
	}
}

// Once retention knows the size of records, it deletes the records beyond the limit. A broker that
// frees its files late must not cause more deletions.
func TestWhatExceedsASizeIsDeleted(t *testing.T) {
	r := newRig(t)
	sizes, err := r.deleter.Sizes(t.Context(), []int32{0}, events)
	if err != nil {
		t.Fatal(err)
	}
	const kept = 15
	record := sizes[events][0] / (2 * recordsOfAnAge)
	far := kafka.Offsets{events: {0: 1000}}
	r.commit("projector", far)
	r.commit("engine", far)
	rounds := make(chan struct{}) // each round waits until the test receives
	retained := r.run(func(cfg *topology.RetentionConfig) {
		cfg.Keep, cfg.KeepBytes = 0, kept*record
		cfg.Owned = func() []topology.RetainedPartition {
			select {
			case rounds <- struct{}{}:
			case <-t.Context().Done():
			}
			return []topology.RetainedPartition{{Restores: map[string]int64{events: 1000, parts: 7}}}
		}
	})
	want := func(first int64) {
		t.Helper()
		for range 4 { // the first round may see earlier deletions, but later ones do not
			<-rounds
		}
		statuses := retained.Statuses()
		if len(statuses) == 0 || statuses[0].First != first {
			t.Errorf("the first record is %+v, want %d", statuses, first)
		}
	}
	want(0) // the topic has not grown
	for end := int64(30); end <= 50; end += recordsOfAnAge {
		r.append(r.now)
		want(end - kept)
	}
}
