package brokertest

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Patience is how long a test waits for a condition. Three real brokers, or an overloaded machine,
// may be a thousand times slower than the embedded broker.
const Patience = 3 * time.Minute

// Cluster returns the connection settings of the test's Kafka. A nil log discards all messages.
func (k *Broker) Cluster(log *slog.Logger) kafka.Cluster {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return kafka.Cluster{
		Brokers:  k.Addrs(),
		Prefix:   k.Prefix(),
		ClientID: "test",
		Logger:   log,
	}
}

// MakeTopics creates Lumenhook's topics with the broker's default settings. Keyed topics get the
// given number of partitions, other topics get one.
func MakeTopics(t testing.TB, c kafka.Cluster, partitions int32, replicas int16) {
	t.Helper()
	var specs []kafka.TopicSpec
	for _, topic := range schemas.Topics() {
		spec := kafka.TopicSpec{Name: topic.Name, Partitions: 1, ReplicationFactor: replicas}
		if topic.Keyed {
			spec.Partitions = partitions
		}
		specs = append(specs, spec)
	}
	if err := c.EnsureTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

// Cut is a switch. While it is set, the broker reports that no earlier leader's records exist any
// more, as after an unclean election that truncated a topic to nothing.
type Cut struct{ atomic.Bool }

// NewCut installs a Cut in a broker.
func NewCut(fake *kfake.Cluster) *Cut {
	c := new(Cut)
	answer := func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return endedAtOnce(request.(*kmsg.OffsetForLeaderEpochRequest)), nil, c.Load()
	}
	fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), answer)
	return c
}

func endedAtOnce(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 0
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
