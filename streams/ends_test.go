package streams_test

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/streams"
)

// staleEnd is where the log of a broker ends that lost the lead long ago.
const staleEnd = 3

// newStaleRig is a rig on three brokers, one of which stood still while others
// were elected: as yet it describes the topics as they were, and takes whoever
// does not know better for a reader of its own log.
func newStaleRig(t *testing.T) *rig {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "test."+numbersTopic, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	before := describe(t, fake)
	for fake.PartitionInfo("test."+numbersTopic, 0).Epoch == 0 || fake.PartitionInfo("test."+numbersTopic, 1).Epoch == 0 {
		fake.ShufflePartitionLeaders()
	}
	var asked atomic.Int64
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if len(req.(*kmsg.MetadataRequest).Topics) == 0 || asked.Add(1)%3 != 1 {
			return nil, nil, false // one broker in three is stale
		}
		was := *before
		was.SetVersion(req.GetVersion())
		return &was, nil, true
	})
	fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := staleOffsets(req.(*kmsg.ListOffsetsRequest))
		return resp, nil, resp != nil
	})
	return &rig{t: t, dir: t.TempDir(), cluster: streams.Cluster{
		Brokers: fake.ListenAddrs(), Prefix: "test.", ClientID: "test", Logger: slog.New(slog.DiscardHandler),
	}}
}

// describe gives the topics as they are now.
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

// staleOffsets is the answer of a broker that leads in epoch 0; nil to a question
// that names a later one.
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
			rp.Partition, rp.LeaderEpoch, rp.Offset = p.Partition, 0, staleEnd
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TestAStaleLeaderIsNotBelieved: what was acknowledged before the question lies
// before the end that is given, whatever a broker says that missed an election.
func TestAStaleLeaderIsNotBelieved(t *testing.T) {
	r := newStaleRig(t)
	r.feed(1, 50)
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

// TestABrokerThatIsGoneHoldsNobodyUp: one broker that does not answer is left out.
func TestABrokerThatIsGoneHoldsNobodyUp(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "test."+numbersTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	var asked atomic.Int64
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if len(req.(*kmsg.MetadataRequest).Topics) > 0 && asked.Add(1)%3 == 1 {
			fake.SleepControl(func() { <-hung })
		}
		return nil, nil, false
	})
	cluster := streams.Cluster{Brokers: fake.ListenAddrs(), Prefix: "test.", ClientID: "test", Logger: slog.New(slog.DiscardHandler)}
	ends, err := cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	if until, err := ends.Of(t.Context(), numbersTopic); err != nil || len(until) != 1 {
		t.Errorf("%v, %v", until, err)
	}
	if asked.Load() < 3 {
		t.Errorf("%d brokers were asked", asked.Load())
	}
}
