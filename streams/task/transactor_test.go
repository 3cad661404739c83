package task_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// newFakeRig returns a rig on an in-memory broker whose responses a test can replace.
func newFakeRig(t *testing.T) (*rig, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(2, "test."+numbersTopic, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return &rig{t: t, dir: t.TempDir(), cluster: kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}}, fake
}

// unstable returns a broker's response to a request for input positions while a transaction of the
// group is open.
func unstable(request kmsg.Request, topic string) kmsg.Response {
	req := request.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, g := range req.Groups {
		rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		rp.Partition, rp.Offset, rp.ErrorCode = 0, -1, kerr.UnstableOffsetCommit.Code
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group, group.Topics = g.Group, append(group.Topics, rt)
		resp.Groups = append(resp.Groups, group)
	}
	return resp
}

// A starting task must wait for an open transaction of the group.
func TestTaskWaitsForStablePositions(t *testing.T) {
	t.Parallel()
	r, fake := newFakeRig(t)
	const answers = 3
	var asked atomic.Int32
	fake.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if asked.Add(1) > answers {
			return nil, nil, false
		}
		return unstable(req, r.cluster.Prefix+numbersTopic), nil, true
	})
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	go func() { ended <- r.task(r.dir, nil).Run(context.Background(), stopping) }()
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))
	close(stopping)
	if err := <-ended; err != nil {
		t.Errorf("the task ended: %v", err)
	}
	if n := asked.Load(); n != answers+1 {
		t.Errorf("the positions were asked for %d times, want %d", n, answers+1)
	}
}

// A state that is ahead of its journal has to be rebuilt from the journal's beginning. If the
// beginning has been deleted, this is impossible.
func TestStateAheadOfAJournalThatWasCutIsAnError(t *testing.T) {
	r, fake := newFakeRig(t)
	stop := r.run(r.task(t.TempDir(), nil))
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	ahead(t, r.dir)
	cut(t, fake, "test."+sumsTopic)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	defer cancel()
	err := r.task(r.dir, nil).Run(ctx, nil)
	if err == nil || !strings.Contains(err.Error(), "Restore the topics from a backup") {
		t.Errorf("the task ended: %v", err)
	}
}

// ahead creates a state that has folded more records than its journal contains.
func ahead(t *testing.T, dir string) {
	t.Helper()
	store, err := store.Open(store.Config{
		Dir:           dir,
		Identity:      "test",
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := store.Begin()
	if err := errors.Join(batch.SetCheckpoint(sumsTopic, 0,
		1<<40), batch.Commit(), store.Close()); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, fake *kfake.Cluster, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, 0, 3, -1)
	deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets)
	if err := errors.Join(err, deleted.Error()); err != nil {
		t.Fatal(err)
	}
}

// endless answers a request for a topic's ends as if the topic had a million records, so that a
// restore waits for records that never arrive.
func endless(request kmsg.Request) kmsg.Response {
	req := request.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p.Partition, 0, 0
			if p.Timestamp == -1 { // the end, not the beginning
				rp.Offset = 1_000_000
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// A group that revokes a partition waits for its task to stop. A task that is still restoring has
// nothing to finish, so it must stop at once.
func TestATaskThatIsRestoringStopsAtOnce(t *testing.T) {
	r, fake := newFakeRig(t)
	asked := make(chan struct{}, 1)
	fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		select {
		case asked <- struct{}{}:
		default:
		}
		return endless(req), nil, true
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	go func() { ended <- r.task(r.dir, nil).Run(ctx, stopping) }()
	<-asked
	close(stopping)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the task ended: %v", err)
		}
	case <-time.After(testkit.Patience(t)):
		t.Error("the task restores on although it was stopped")
	}
}
