package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Ends asks topics for their high watermarks: topic, partition, offset. An open
// transaction lies below the high watermark, so a read-committed reader that
// has passed it has seen all that was committed before the question.
type Ends struct {
	client  *kgo.Client
	admin   *kadm.Client
	cluster Cluster
}

// NewEnds opens a client for asking ends again and again.
func (c Cluster) NewEnds() (*Ends, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &Ends{client: client, admin: kadm.NewClient(client), cluster: c}, nil
}

// Of gives the high watermark of each partition of a topic. While a partition's
// leadership moves it asks again, for a bounded time.
func (e *Ends) Of(ctx context.Context, topic string) (map[int32]int64, error) {
	return whileTransient(ctx, func() (map[int32]int64, error) {
		return listed(e.admin.ListEndOffsets(ctx, e.cluster.fullName(topic)))
	})
}

// Starts gives the first offset of each partition of a topic, and asks again as
// Of does.
func (e *Ends) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return whileTransient(ctx, func() (map[int32]int64, error) {
		return listed(e.admin.ListStartOffsets(ctx, e.cluster.fullName(topic)))
	})
}

// Close ends the client.
func (e *Ends) Close() { e.client.Close() }

func listed(offsets kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("streams: asking for the offsets of a topic: %w", err)
	}
	by := make(map[int32]int64)
	offsets.Each(func(o kadm.ListedOffset) { by[o.Partition] = o.Offset })
	if len(by) == 0 {
		return nil, errors.New("streams: the topic has no partitions: run `lumenhook topics create` first")
	}
	return by, nil
}
