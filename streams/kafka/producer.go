package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Producer appends records. It partitions them by the hash of their key, like Kafka's default
// partitioner. It is idempotent, waits for all in-sync replicas, and is safe for concurrent use.
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

// Append appends records and waits for all acknowledgements. After an error, some of the records
// may have been written. If ctx is done, the error wraps ctx.Err(), even if the client reports the
// error that it was retrying.
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

// PartitionOf returns a function that maps a key to its partition.
func PartitionOf(partitions int) func(key string) int32 {
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return func(key string) int32 {
		return int32(partitioner.Partition(&kgo.Record{Key: []byte(key)},
			partitions))
	}
}

// Close closes the client.
func (p *Producer) Close() { p.client.Close() }

// FencedProducer appends in transactions with one transactional id, which belongs to its latest
// producer. Open transactions of earlier producers are aborted, and their later appends fail.
type FencedProducer struct{ transactions }

// NewFencedProducer takes over a transactional id: name with the deployment's prefix.
func (c Cluster) NewFencedProducer(ctx context.Context, name string) (*FencedProducer, error) {
	t, err := c.takeOver(ctx, c.fullName(name), kgo.StickyKeyPartitioner(nil))
	if err != nil {
		return nil, err
	}
	return &FencedProducer{t}, nil
}

// Append appends records in one transaction, partitioned like those of a [Producer], and waits
// until it is committed. After an error the outcome is unknown until the next owner takes over, and
// the producer must not be used again.
func (p *FencedProducer) Append(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	return p.inOne(ctx, p.cluster.toKafka(records), func(identity) error { return nil })
}
