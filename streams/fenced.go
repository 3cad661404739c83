package streams

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FencedProducer appends in transactions of one transactional id. Whoever opened
// the latest producer of an id is its owner: what a former one had open is
// aborted, and what it appends later is refused, whatever it believes of itself.
type FencedProducer struct{ transactions }

// NewFencedProducer takes a transactional id over. The name has the deployment's
// prefix put before it.
func (c Cluster) NewFencedProducer(ctx context.Context, name string) (*FencedProducer, error) {
	t, err := c.takeOver(ctx, c.fullName(name), kgo.StickyKeyPartitioner(nil))
	if err != nil {
		return nil, err
	}
	return &FencedProducer{t}, nil
}

// Append appends records in one transaction, placed by the hash of their key as a
// Producer places them, and returns when it is committed. After an error nobody
// knows what stands: the producer is of no more use, and the next owner's
// take-over decides.
func (p *FencedProducer) Append(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	batch := make([]*kgo.Record, len(records))
	for i, r := range records {
		batch[i] = p.cluster.toKafka(r)
	}
	return p.inOne(ctx, batch, func(*kgo.Record) {}, func(identity) error { return nil })
}

// Close ends the client.
func (p *FencedProducer) Close() { p.close() }
