package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	relayPrefix = "floor."
	// relayMax is how many records are taken in one transaction.
	relayMax = 5000
	// partitions of each topic: as many as `lumenhook run` has.
	partitions = 4
)

// relay is a broker, and beside it a consumer that puts each match into another topic, with
// its own position, by transactions: what any service on Kafka that loses and doubles nothing
// does at least.
func (t *task) relay(ctx context.Context) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, err := broker.Start(broker.Config{
		Dir:    t.Dir,
		Listen: "127.0.0.1:0",
		Sync:   t.Sync,
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer b.Close()
	at := cluster{Broker: b.Addr(), Prefix: relayPrefix}
	var topics []streams.TopicSpec
	for _, name := range []string{schemas.TopicMatches, schemas.TopicJournal} {
		topics = append(topics,
			streams.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: 1})
	}
	if err := at.open().EnsureTopics(ctx, topics); err != nil {
		return err
	}
	passed := &tally{}
	url, err := passed.serve()
	if err != nil {
		return err
	}
	session, err := relaySession(at)
	if err != nil {
		return err
	}
	defer session.Close()
	report(event{Kind: eventReady, Broker: b.Addr(), Counter: url})
	for ctx.Err() == nil {
		n, err := relayOnce(ctx, session)
		if err != nil && ctx.Err() == nil {
			return err
		}
		passed.add(n)
	}
	return nil
}

// relaySession has the settings of the product's own clients.
func relaySession(at cluster) (*kgo.GroupTransactSession, error) {
	return kgo.NewGroupTransactSession(
		kgo.SeedBrokers(at.Broker),
		kgo.TransactionalID(relayPrefix+"relay"),
		kgo.ConsumerGroup(relayPrefix+"relay"),
		kgo.ConsumeTopics(relayPrefix+schemas.TopicMatches),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(0),
	)
}

// relayOnce passes on what there is, by one transaction, and returns how many records that were.
func relayOnce(ctx context.Context, session *kgo.GroupTransactSession) (int, error) {
	fetches := session.PollRecords(ctx, relayMax)
	if err := fetches.Err0(); err != nil {
		return 0, fmt.Errorf("taking matches: %w", err)
	}
	if fetches.NumRecords() == 0 {
		return 0, nil
	}
	if err := session.Begin(); err != nil {
		return 0, fmt.Errorf("beginning a transaction: %w", err)
	}
	fetches.EachRecord(func(r *kgo.Record) {
		session.Produce(ctx, &kgo.Record{
			Topic:   relayPrefix + schemas.TopicJournal,
			Key:     r.Key,
			Value:   r.Value,
			Headers: r.Headers,
		}, nil) // End does not commit what has failed
	})
	committed, err := session.End(ctx, kgo.TryCommit)
	if err != nil || !committed {
		return 0, fmt.Errorf("ending a transaction: committed %v, %w", committed, err)
	}
	return fetches.NumRecords(), nil
}
