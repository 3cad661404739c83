package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Producer appends records, partitioned by the hash of their key like Kafka's default partitioner.
// It is idempotent and waits for all in-sync replicas. It is safe for concurrent use.
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

// Append appends records and returns when all are acknowledged, or with the first error, in which
// case some of them may have been written. If ctx ends, it returns ctx's error, even if the client
// reports the error that it was retrying, such as a coordinator that is loading.
func (p *Producer) Append(ctx context.Context, records ...Record) error {
	err := p.client.ProduceSync(ctx, p.cluster.toKafka(records)...).FirstErr()
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("streams: appending to the log: %w", err)
}

// PartitionOf returns the function that maps a key to its partition, for a topic with that many
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

// FencedProducer appends in transactions of one transactional id. The latest producer of an id owns
// it: open transactions of former owners are aborted, and their later appends are refused.
type FencedProducer struct{ transactions }

// NewFencedProducer takes over a transactional id: name, with the deployment's prefix.
func (c Cluster) NewFencedProducer(ctx context.Context, name string) (*FencedProducer, error) {
	t, err := c.takeOver(ctx, c.fullName(name), kgo.StickyKeyPartitioner(nil))
	if err != nil {
		return nil, err
	}
	return &FencedProducer{t}, nil
}

// Append appends records in one transaction, partitioned like a Producer's, and returns when it is
// committed. After an error the outcome is unknown: the producer must not be used again, and the
// next owner's takeover decides.
func (p *FencedProducer) Append(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	return p.inOne(ctx, p.cluster.toKafka(records), func(identity) error { return nil })
}
