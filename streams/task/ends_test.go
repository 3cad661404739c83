package task_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// newStaleRig returns a rig on three brokers. After wake, one of them behaves like a broker that
// was paused during an election. It describes the topics as they were before and answers reads of
// its own log, unless the request names a later epoch.
func newStaleRig(t *testing.T) (r *rig, wake func()) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3),
		kfake.SeedTopics(2, "test."+numbersTopic, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	before := describe(t, fake)
	for fake.PartitionInfo("test."+numbersTopic, 0).Epoch == 0 ||
		fake.PartitionInfo("test."+numbersTopic, 1).Epoch == 0 {
		fake.ShufflePartitionLeaders()
	}
	var woken atomic.Bool
	var asked atomic.Int64
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if !woken.Load() || len(req.(*kmsg.MetadataRequest).Topics) == 0 || asked.Add(1)%3 != 1 {
			return nil, nil, false // one broker in three is stale
		}
		was := *before
		was.SetVersion(req.GetVersion())
		return &was, nil, true
	})
	fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := staleOffsets(req.(*kmsg.ListOffsetsRequest))
		return resp, nil, resp != nil && woken.Load()
	})
	r = &rig{t: t, dir: t.TempDir(), cluster: kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}}
	return r, func() { woken.Store(true) }
}

func describe(t *testing.T, fake *kfake.Cluster) *kmsg.MetadataResponse {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// staleOffsets returns the answer of a broker that led in epoch 0, when the topic was empty. It
// returns nil if the request names a later epoch.
func staleOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			if p.CurrentLeaderEpoch > 0 {
				return nil
			}
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.Offset = p.Partition, 0, 0
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// The returned end must lie after all records that were acknowledged before the request, even if a
// broker that missed an election answers.
func TestAStaleLeaderIsNotBelieved(t *testing.T) {
	r, wake := newStaleRig(t)
	r.feed(1, 50)
	wake()
	ends, err := r.cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	for range 20 {
		until, err := ends.Of(t.Context(), numbersTopic)
		if err != nil {
			t.Fatal(err)
		}
		if total := until[0] + until[1]; total != 100 {
			t.Fatalf("the topic ends at %v, and 100 records are in it", until)
		}
	}
}

// One broker that does not answer is skipped. Two are an error.
func TestABrokerThatIsGoneHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "test."+numbersTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	var gone atomic.Int32
	gone.Store(1)
	there := describe(t, fake)
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := *there
		resp.Brokers = slices.Clone(there.Brokers)
		for id := range gone.Load() {
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = 10+id, "127.0.0.1", 1 // nothing listens on this port
			resp.Brokers = append(resp.Brokers, b)
		}
		resp.SetVersion(req.GetVersion())
		return &resp, nil, true
	})
	cluster := kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	ends, err := cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	if until, err := ends.Of(t.Context(), numbersTopic); err != nil || len(until) != 1 {
		t.Errorf("one is gone: %v, %v", until, err)
	}
	gone.Store(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if until, err := ends.Of(ctx, numbersTopic); err == nil {
		t.Errorf("two are gone: %v", until)
	}
}

// The owner's own first record lies after everything that was acknowledged, whatever end the
// brokers report for the journal. A restore must therefore read up to it.
func TestARestoreReadsUpToItsOwnRecord(t *testing.T) {
	r, fake := newFakeRig(t)
	stop := r.run(r.task(r.dir, nil))
	r.feed(1, 50)
	total := r.onPartition(0)
	r.wantJournal(total)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	inputs, journal := "test."+numbersTopic, "test."+sumsTopic
	fake.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if req.Topics[0].Topic == inputs {
			return nil, nil, false
		}
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].CurrentLeaderEpoch = -1
		}
		return staleOffsets(req), nil, req.Topics[0].Topic == journal &&
			req.Topics[0].Partitions[0].Timestamp == -1
	})
	// The first state is ahead of the stale end, and the second is empty.
	for _, dir := range []string{r.dir, t.TempDir()} {
		claimed := make(chan store.Claimed, 10_000)
		stop := r.run(r.task(dir, func(c store.Claimed) { claimed <- c }))
		testkit.Eventually(t, "all claimed", func() bool { return len(claimed) == total })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}
