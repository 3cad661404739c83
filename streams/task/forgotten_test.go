package task_test

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A broker learns of a deletion some time after it was acknowledged. Until then it still describes
// the topic, so a caller that ensures that the topic exists would not create it.
func TestATopicIsDeletedWhereBrokersHaveForgottenIt(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cluster := kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	before := describe(t, fake)
	first, _, err := cluster.TopicIdentity(t.Context(), sumsTopic)
	must(t, err)
	var late atomic.Int64 // number of answers that still describe the topic
	fake.ControlKey(int16(kmsg.DeleteTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		late.Store(3)
		return nil, nil, false
	})
	fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if len(req.(*kmsg.MetadataRequest).Topics) == 0 || late.Add(-1) < 0 {
			return nil, nil, false
		}
		was := *before
		was.SetVersion(req.GetVersion())
		return &was, nil, true
	})
	must(t, cluster.DeleteTopic(t.Context(), sumsTopic))
	must(t, cluster.EnsureTopics(t.Context(), []kafka.TopicSpec{
		{Name: sumsTopic, Partitions: 2, ReplicationFactor: 1},
	}))
	second, _, err := cluster.TopicIdentity(t.Context(), sumsTopic)
	must(t, err)
	if second == first {
		t.Errorf("the topic is the one that was deleted: %s", second)
	}
}
