package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// longestTransaction is the longest timeout that a producer may ask for (the
	// default of the clients of Kafka in Java, and longer than that of others), so
	// the oldest record of an open transaction is at most that much older than
	// the newest record of its partition.
	longestTransaction = time.Minute
	// markersTimeout bounds the work at a start.
	markersTimeout = time.Minute
)

// hanging is a transaction without an end in the log.
type hanging struct {
	producer int64
	epoch    int16
}

// endHangingTransactions writes the abort markers that a kill prevented. The broker itself
// forgets such a transaction when it reads its folder again, without a marker: a reader of
// committed records could then never reach the end of the partition, and after the next
// kill the records would belong to whatever transaction the same producer ends next.
func (b *Broker) endHangingTransactions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markersTimeout)
	defer cancel()
	client, err := b.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := listed(admin.ListEndOffsets(ctx))
	if err != nil {
		return err
	}
	from, err := b.recent(ctx, admin, ends)
	if err != nil {
		return err
	}
	open, err := b.openTransactions(ctx, from, ends)
	if err != nil || len(open) == 0 {
		return err
	}
	markers := make([]kadm.TxnMarkers, 0, len(open))
	for h, partitions := range open {
		markers = append(markers,
			kadm.TxnMarkers{ProducerID: h.producer, ProducerEpoch: h.epoch, Topics: partitions})
	}
	written, err := admin.WriteTxnMarkers(ctx, markers...)
	if err != nil {
		return err
	}
	for _, ofProducer := range written {
		for _, ofTopic := range ofProducer.Topics {
			for _, p := range ofTopic.Partitions {
				if p.Err != nil {
					return fmt.Errorf("ending a transaction in %s/%d: %w", p.Topic, p.Partition, p.Err)
				}
			}
		}
	}
	return nil
}

func listed(offsets kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = offsets.Error()
	}
	return offsets, err
}

// recent returns the offset to start at in each partition that has records: the first
// record that may belong to a transaction that was open at the end.
func (b *Broker) recent(
	ctx context.Context, admin *kadm.Client, ends kadm.ListedOffsets,
) (map[string]map[int32]kgo.Offset, error) {
	newest, err := listed(admin.ListMaxTimestampOffsets(ctx))
	if err != nil {
		return nil, err
	}
	from := make(map[string]map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := newest.Lookup(end.Topic, end.Partition)
		if end.Offset == 0 || !ok || at.Timestamp < 0 {
			return
		}
		if from[end.Topic] == nil {
			from[end.Topic] = make(map[int32]kgo.Offset)
		}
		from[end.Topic][end.Partition] = kgo.NewOffset().AfterMilli(
			at.Timestamp - longestTransaction.Milliseconds(),
		)
	})
	return from, nil
}

// openTransactions reads to the ends and returns the transactions that have records but no
// end.
func (b *Broker) openTransactions(
	ctx context.Context, from map[string]map[int32]kgo.Offset, ends kadm.ListedOffsets,
) (map[hanging]kadm.TopicsSet, error) {
	unread := make(map[string]map[int32]int64)
	for topic, partitions := range from {
		unread[topic] = make(map[int32]int64)
		for p := range partitions {
			end, _ := ends.Lookup(topic, p)
			unread[topic][p] = end.Offset
		}
	}
	type producerPartition struct {
		topic     string
		partition int32
		producer  int64
	}
	open := make(map[producerPartition]int16)
	if len(unread) > 0 {
		reader, err := b.newClient(kgo.ConsumePartitions(from), kgo.KeepControlRecords())
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		for len(unread) > 0 {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return nil, err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				at := producerPartition{r.Topic, r.Partition, r.ProducerID}
				switch {
				case r.Attrs.IsControl():
					delete(open, at)
				case r.Attrs.IsTransactional():
					open[at] = r.ProducerEpoch
				}
				if end, ok := unread[r.Topic][r.Partition]; ok && r.Offset+1 >= end {
					delete(unread[r.Topic], r.Partition)
					if len(unread[r.Topic]) == 0 {
						delete(unread, r.Topic)
					}
				}
			})
		}
	}
	by := make(map[hanging]kadm.TopicsSet)
	for at, epoch := range open {
		h := hanging{at.producer, epoch}
		topics := by[h]
		topics.Add(at.topic, at.partition)
		by[h] = topics
	}
	return by, nil
}
