package brokertest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Patience is how long a test waits for a condition: three brokers, or a machine with a load of
// 20, take a thousand times as long for a turn as the embedded broker alone.
const Patience = 3 * time.Minute

// Cluster returns the connection settings of the test's Kafka. If log is nil, nothing is
// logged.
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

// MakeTopics creates the product's topics, the keyed ones with this many partitions, with
// the brokers' own settings.
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
