package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Producer appends records, partitioned by the hash of their key as Kafka's default
// partitioner does. It is idempotent and waits for all in-sync replicas. It is safe for
// concurrent use.
type Producer struct {
	cluster Cluster
	client  *kgo.Client
}

// NewProducer opens a producer.
func (c Cluster) NewProducer() (*Producer, error) {
	client, err := c.client(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchMaxBytes(1<<20),
		kgo.MaxBufferedRecords(10_000),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	return &Producer{cluster: c, client: client}, nil
}

// Append appends records and returns when all are acknowledged, or with the first error;
// then some of them may have been written.
func (p *Producer) Append(ctx context.Context, records ...Record) error {
	if err := p.client.ProduceSync(ctx, p.cluster.toKafka(records)...).FirstErr(); err != nil {
		return fmt.Errorf("streams: appending to the log: %w", err)
	}
	return nil
}

// PartitionOf returns the function from a key to its partition, for a topic with that many
// partitions.
func PartitionOf(partitions int) func(key string) int32 {
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return func(key string) int32 {
		return int32(partitioner.Partition(&kgo.Record{Key: []byte(key)},
			partitions))
	}
}

// Close closes the client.
func (p *Producer) Close() { p.client.Close() }
