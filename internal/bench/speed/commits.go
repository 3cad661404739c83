package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// pacedCommits puts matches into a topic by transactions, at a rate, spread over the partitions:
// of each partition one transaction after another, with all that has become due meanwhile. It
// writes down how long each took, from when it was due until its transaction was committed. A
// service that loses and doubles nothing has to wait for as long once, before it may post.
func (t *task) pacedCommits(ctx context.Context) error {
	at := t.Cluster
	at.Prefix = relayPrefix
	err := at.open().EnsureTopics(ctx, []streams.TopicSpec{{
		Name:              schemas.TopicJournal,
		Partitions:        partitions,
		ReplicationFactor: realBrokerCount,
	}})
	if err != nil {
		return err
	}
	writers := make([]*commits, partitions)
	for p := range writers {
		if writers[p], err = t.newCommits(ctx, at.Broker, p); err != nil {
			return err
		}
		defer writers[p].client.Close()
	}
	return t.commitAll(ctx, writers)
}

// commitAll measures what all writers take.
func (t *task) commitAll(ctx context.Context, writers []*commits) error {
	count := int(t.Rate * t.Time.Seconds())
	used := processor()
	report(event{Kind: eventBegan})
	began := time.Now()
	var all sync.WaitGroup
	errs := make([]error, len(writers))
	for p, w := range writers {
		all.Go(func() { errs[p] = w.run(ctx) })
	}
	var failed error
	for n := range count {
		due := began.Add(time.Duration(float64(n) / t.Rate * float64(time.Second)))
		if failed = awaitTime(ctx, due); failed != nil {
			break
		}
		writers[n%len(writers)].due <- due
	}
	for _, w := range writers {
		close(w.due)
	}
	all.Wait()
	if err := errors.Join(failed, errors.Join(errs...)); err != nil {
		return err
	}
	var took []float64
	for _, w := range writers {
		took = append(took, w.took...)
	}
	text, err := json.Marshal(took)
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.Sent, text, 0o600); err != nil {
		return err
	}
	report(event{Kind: eventDone, N: count, Processor: processor() - used})
	return nil
}

// commits are the transactions of one partition.
type commits struct {
	client *kgo.Client
	record kgo.Record
	due    chan time.Time
	took   []float64 // milliseconds
}

// newCommits opens a client with the settings of the product's own, which has made a
// transaction.
func (t *task) newCommits(ctx context.Context, broker string, partition int) (*commits, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker),
		kgo.TransactionalID(relayPrefix+"commits-"+strconv.Itoa(partition)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	match := t.Payments.Match(t.Run, partition)
	c := &commits{
		client: client,
		record: kgo.Record{
			Topic:     relayPrefix + schemas.TopicJournal,
			Partition: int32(partition), // #nosec G115 -- one of a few
			Key:       match.Key,
			Value:     match.Value,
		},
		due: make(chan time.Time, underWay),
	}
	if err := c.commit(ctx, 1); err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// run commits what is due until nothing is left. After an error it takes what comes, and does
// nothing with it: who sends must not be held up.
func (c *commits) run(ctx context.Context) (err error) {
	for first := range c.due {
		batch := []time.Time{first}
		for len(c.due) > 0 {
			batch = append(batch, <-c.due)
		}
		if err != nil {
			continue
		}
		err = c.commit(ctx, len(batch))
		for _, due := range batch {
			c.took = append(c.took, time.Since(due).Seconds()*1000)
		}
	}
	return err
}

// commit makes one transaction of some records.
func (c *commits) commit(ctx context.Context, records int) error {
	if err := c.client.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	batch := make([]*kgo.Record, records)
	for i := range batch {
		r := c.record
		batch[i] = &r
	}
	if err := c.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return fmt.Errorf("writing in a transaction: %w", err)
	}
	if err := streams.AwaitStored(ctx, c.client, batch); err != nil {
		return err
	}
	if err := c.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("committing a transaction: %w", err)
	}
	return nil
}
