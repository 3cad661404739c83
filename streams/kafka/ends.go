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

// Ends reads the high watermarks of topics. An open transaction lies below the high watermark, so a
// read-committed reader that has passed it has seen everything that was committed before the
// request.
//
// A broker that lost the leadership of a partition without noticing, for example because it was
// paused, would answer with an end that is too low. The request therefore names the leader epoch
// that all brokers but one know (leaders.go), and a leader of an earlier epoch refuses it.
type Ends struct {
	client  *kgo.Client
	cluster Cluster
	known   atomic.Pointer[map[int32]bool] // the ids of the brokers
}

// Timestamps with which ListOffsets asks for the ends of a partition.
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

// Extent returns where each partition of a topic starts and ends.
func (c Cluster) Extent(
	ctx context.Context, topic string,
) (starts, ends map[int32]int64, err error) {
	e, err := c.NewEnds()
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	if starts, err = e.Starts(ctx, topic); err != nil {
		return nil, nil, err
	}
	ends, err = e.Of(ctx, topic)
	return starts, ends, err
}

// Of returns the high watermark of each partition of a topic. While the leadership of a partition
// moves, it retries for a bounded time.
func (e *Ends) Of(ctx context.Context, topic string) (map[int32]int64, error) {
	return e.offsets(ctx, topic, atEnd)
}

// Starts returns the first offset of each partition of a topic. It retries like Of.
func (e *Ends) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return e.offsets(ctx, topic, atStart)
}

// Since returns, for each partition, the offset of the first record whose timestamp is not before
// millis, a Unix time in milliseconds, or the partition's end if there is no such record.
func (e *Ends) Since(ctx context.Context, topic string, millis int64) (map[int32]int64, error) {
	// A record that is appended between the two requests is not before the first one's end.
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

// OfEpochs returns the end of leader epochs in the current log: the offset after the last record of
// each. It omits a partition whose leader does not know the epoch or does not answer.
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

// Ends uses the client of the transactions. Do not close the result.
func (t *transactions) Ends() *Ends { return &Ends{client: t.client, cluster: t.cluster} }

// offsets asks each partition's leader for the offset of a timestamp; -1 if there is no such
// record.
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

// ask sends the requests to all leaders concurrently.
func (e *Ends) ask(
	ctx context.Context, name string, timestamp int64, leaders map[int32]leader,
) (map[int32]int64, error) {
	requests := make(map[int32]*kmsg.ListOffsetsRequest) // by broker
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
		go func() { answers <- askBroker[*kmsg.ListOffsetsResponse](ctx, e.client, broker, req) }()
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
		return nil, fmt.Errorf("%w: brokers left out partitions", errAskAgain)
	}
	return by, nil
}

// noteOffsets adds a leader's answer to by.
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
