package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ends reads the high watermarks of topics. A read-committed reader that has passed one has seen
// everything that was committed before the request, because open transactions are below it.
//
// A broker that lost the leadership of a partition without noticing, for example because it was
// paused, would report too low an end. Requests therefore name the leader epoch that all brokers
// but one know (leaders.go), which the leader of an earlier epoch rejects.
type Ends struct {
	client  *kgo.Client
	cluster Cluster
	known   atomic.Pointer[map[int32]bool]
}

// Special timestamps of ListOffsets.
const (
	atEnd   = -1
	atStart = -2
)

// NewEnds opens a client for reading ends.
func (c Cluster) NewEnds() (*Ends, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &Ends{client: client, cluster: c}, nil
}

// Extent returns the first offset and the end of each partition of a topic.
func (c Cluster) Extent(
	ctx context.Context, topic string,
) (starts, ends map[int32]int64, err error) {
	e, err := c.NewEnds()
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	return e.Extent(ctx, topic)
}

// Extent returns the first offset and the end of each partition of a topic.
func (e *Ends) Extent(
	ctx context.Context, topic string,
) (starts, ends map[int32]int64, err error) {
	if starts, err = e.Starts(ctx, topic); err != nil {
		return nil, nil, err
	}
	ends, err = e.Of(ctx, topic)
	return starts, ends, err
}

// Of returns the high watermark of each partition of a topic. It retries while leadership moves.
func (e *Ends) Of(ctx context.Context, topic string) (map[int32]int64, error) {
	return e.offsets(ctx, topic, atEnd)
}

// Starts returns the first offset of each partition of a topic. It retries like [Ends.Of].
func (e *Ends) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return e.offsets(ctx, topic, atStart)
}

// Since returns, for each partition, the offset of the first record with a timestamp of at least
// millis (Unix milliseconds), or the partition's end.
func (e *Ends) Since(ctx context.Context, topic string, millis int64) (map[int32]int64, error) {
	// The end comes first: a record that is appended between the two requests is after it.
	ends, err := e.Of(ctx, topic)
	if err != nil {
		return nil, err
	}
	since, err := e.offsets(ctx, topic, max(0, millis))
	if err != nil {
		return nil, err
	}
	for p, offset := range since {
		if offset < 0 {
			since[p] = ends[p]
		}
	}
	return since, nil
}

// OfEpochs returns the offset after the last record of each leader epoch. It omits partitions whose
// leader does not know the epoch or does not answer.
func (e *Ends) OfEpochs(ctx context.Context, topic string, epochs map[int32]int32) map[int32]int64 {
	if len(epochs) == 0 {
		return nil
	}
	name := e.cluster.fullName(topic)
	answers, err := kadm.NewClient(e.client).OffsetForLeaderEpoch(ctx,
		kadm.OffsetForLeaderEpochRequest{name: epochs})
	if err != nil {
		return nil
	}
	by := make(map[int32]int64)
	for p, a := range answers[name] {
		if a.Err == nil && a.EndOffset >= 0 {
			by[p] = a.EndOffset
		}
	}
	return by
}

// Close closes the client.
func (e *Ends) Close() { e.client.Close() }

// Ends returns an Ends that shares the client of the transactions. Do not close it.
func (t *transactions) Ends() *Ends { return &Ends{client: t.client, cluster: t.cluster} }

// offsets returns the offset of a timestamp in each partition, or -1 if there is no such record.
func (e *Ends) offsets(
	ctx context.Context, topic string, timestamp int64,
) (map[int32]int64, error) {
	name := e.cluster.fullName(topic)
	by, err := whileTransient(ctx, func() (map[int32]int64, error) {
		leaders, err := e.leadersOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		return e.ask(ctx, name, timestamp, leaders)
	})
	if err != nil {
		return nil, fmt.Errorf("streams: asking for the offsets of topic %s: %w", name, err)
	}
	return by, nil
}

func (e *Ends) ask(
	ctx context.Context, name string, timestamp int64, leaders map[int32]leader,
) (map[int32]int64, error) {
	requests := make(map[int32]*kmsg.ListOffsetsRequest)
	for p, l := range leaders {
		if requests[l.broker] == nil {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID = -1 // a consumer
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = name
			req.Topics = append(req.Topics, rt)
			requests[l.broker] = req
		}
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.Timestamp = p, l.epoch, timestamp
		topic := &requests[l.broker].Topics[0]
		topic.Partitions = append(topic.Partitions, rp)
	}
	answers := make(chan answer[*kmsg.ListOffsetsResponse], len(requests))
	for broker, req := range requests {
		go func() { answers <- requestBroker[*kmsg.ListOffsetsResponse](ctx, e.client, broker, req) }()
	}
	by := make(map[int32]int64, len(leaders))
	var failed error
	for range requests {
		failed = errors.Join(failed, noteOffsets(by, <-answers))
	}
	if failed != nil {
		return nil, failed
	}
	if len(by) != len(leaders) {
		return nil, fmt.Errorf("%w: the brokers omitted some partitions", errRetry)
	}
	return by, nil
}

func noteOffsets(by map[int32]int64, a answer[*kmsg.ListOffsetsResponse]) error {
	if a.err != nil {
		return a.err
	}
	for _, t := range a.resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			by[p.Partition] = p.Offset
		}
	}
	return nil
}
