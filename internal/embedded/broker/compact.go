package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake's compaction lets a record of an open transaction supersede a committed record with the
// same key. If the transaction is then aborted, both are lost. So kfake's own timer is disabled. A
// hook triggers compaction and retention instead, while no transaction is open and no other request
// is being handled.
const (
	kfakeCompactsMillis = "3153600000000" // a hundred years
	compactEvery        = time.Hour
	// longestTransaction is the longest timeout that a producer may request. It is the default of
	// Kafka's Java clients, and longer than other clients' defaults.
	longestTransaction = time.Minute
	// listTimeout bounds the requests that a start sends to its own broker.
	listTimeout = time.Minute
)

func (b *Broker) knowTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	client, err := b.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	details, err := kadm.NewClient(client).ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("listing the topics: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range details.Names() {
		b.topics[name] = true
	}
	return nil
}

func (b *Broker) knowCreated(r kmsg.Request) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range r.(*kmsg.CreateTopicsRequest).Topics {
		b.topics[t.Topic] = true
		names = append(names, t.Topic)
	}
	return names
}

// compactIfIdle compacts if it is due and no transaction is open. Otherwise a later fetch tries
// again. It must only be called in a hook.
func (b *Broker) compactIfIdle() {
	if time.Since(b.compacted) < b.compactEvery {
		return
	}
	b.compacting.Lock()
	defer b.compacting.Unlock()
	if b.closing {
		return
	}
	b.mu.Lock()
	topics := slices.Collect(maps.Keys(b.topics))
	b.mu.Unlock()
	for _, name := range topics {
		for _, p := range b.cluster.PartitionInfos(name) {
			if p.LastStableOffset < p.HighWatermark {
				return
			}
		}
	}
	b.compacted = time.Now()
	if err := b.noteEnds(topics...); err != nil {
		b.giveUp(fmt.Errorf("recording the ends of partitions: %w", err))
		return
	}
	if b.disk == nil {
		b.compact()
		return
	}
	b.disk.alone(b.compact)
}
