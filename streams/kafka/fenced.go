package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FencedProducer appends in transactions of one transactional id. Whoever opened the latest
// producer of an id owns it: open transactions of former owners are aborted, and what they
// append later is refused.
type FencedProducer struct{ transactions }

// NewFencedProducer takes a transactional id over. The deployment's prefix is put before
// the name.
func (c Cluster) NewFencedProducer(ctx context.Context, name string) (*FencedProducer, error) {
	t, err := c.takeOver(ctx, c.fullName(name), kgo.StickyKeyPartitioner(nil))
	if err != nil {
		return nil, err
	}
	return &FencedProducer{t}, nil
}

// Append appends records in one transaction, placed by the hash of their key as a Producer
// places them, and returns when it is committed. After an error the outcome is unknown: the
// producer must not be used any more, and the next owner's take-over decides.
func (p *FencedProducer) Append(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	return p.inOne(ctx, p.cluster.toKafka(records), func(identity) error { return nil })
}
