package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// NewFiller returns a record that readers skip, which keeps the offsets of a copied topic in step.
func NewFiller(topic string, partition int32) Record {
	return Record{
		Topic:     topic,
		Partition: partition,
		Key:       []byte{},
		Headers:   []Header{{Key: headerFiller, Value: []byte("1")}},
	}
}

// IsFiller reports whether a record was created by NewFiller.
func IsFiller(r Record) bool { return len(r.Value) == 0 && r.Header(headerFiller) != "" }

// Placer appends records with given partitions, offsets and timestamps, without transactions. It
// must be used by one goroutine.
type Placer struct {
	cluster Cluster
	client  *kgo.Client
}

// NewPlacer opens a placer.
func (c Cluster) NewPlacer() (*Placer, error) {
	client, err := c.client(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(1<<20),
		kgo.MaxBufferedRecords(10_000),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	return &Placer{cluster: c, client: client}, nil
}

// Place appends records and waits for all acknowledgements. It returns an error if a record gets an
// offset other than its own, because then another program writes to the partition.
func (p *Placer) Place(ctx context.Context, records ...Record) error {
	batch := p.cluster.toKafka(records)
	for i, r := range records {
		batch[i].Timestamp = r.Timestamp
	}
	if err := p.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return fmt.Errorf("streams: placing records: %w", err)
	}
	for i, r := range records {
		if batch[i].Offset != r.Offset {
			return fmt.Errorf("streams: a record got offset %d of %s/%d instead of %d: another program "+
				"writes to that partition",
				batch[i].Offset, r.Topic, r.Partition, r.Offset)
		}
	}
	return nil
}

// Close closes the client.
func (p *Placer) Close() { p.client.Close() }
