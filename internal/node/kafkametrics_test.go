package node

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// The clients of a process have one series each for all of them, and none for their buffers.
func TestClientsAreCountedTogether(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t.journal",
		"t.payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	registry := prometheus.NewRegistry()
	metrics := NewKafkaMetrics(registry)
	cluster := kafka.Cluster{
		Brokers:  broker.ListenAddrs(),
		Prefix:   "t.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
		Hooks:    []kgo.Hook{metrics},
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.Append(t.Context(),
		kafka.Record{Topic: schemas.TopicJournal, Key: []byte("evt_2"), Value: []byte("a fact")},
		kafka.Record{Topic: schemas.TopicPayments, Key: []byte("G"), Value: []byte("a payment")},
	); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(metrics.open); got != 1 {
		t.Errorf("%v clients are open, one is", got)
	}
	n, err := testutil.GatherAndCount(registry, "lumenhook_kafka_produce_records_total")
	if err != nil || n != 2 {
		t.Errorf("%d topics are counted, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(registry, "lumenhook_kafka_buffered_produce_records_total",
		"lumenhook_kafka_buffered_fetch_records_total"); err != nil || n != 0 {
		t.Errorf("one client's buffers stand for all: %d, %v", n, err)
	}
}
