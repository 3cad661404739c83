package follower

import (
	"context"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams"
)

// Log is what reading ledgers needs of the log.
type Log interface {
	// TakeOver makes the caller the only one whose Commit counts. What a former
	// one has not committed by then is never committed.
	TakeOver(ctx context.Context) error
	// Commit appends records in one transaction. After an error nobody knows
	// whether it stands, or how much of it, until the next TakeOver.
	Commit(ctx context.Context, records ...streams.Record) error
	// Append appends outside of transactions, whoever calls. It returns when all
	// records are acknowledged, or with the first error; then some of them may
	// stand.
	Append(ctx context.Context, records ...streams.Record) error
	// Starts and Ends give the first offset and the end of each partition of a
	// topic.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Ends(ctx context.Context, topic string) (map[int32]int64, error)
	// PartitionOf gives the partition of a key, in a topic that has so many.
	PartitionOf(topic string, partitions int) func(key string) int32
	// Read gives the committed records of a topic from offsets up to ends.
	Read(
		ctx context.Context, topic string, from, ends map[int32]int64,
		take func(streams.Record) error,
	) error
}

// Reading is a follower without its election: the cursor, and the order of
// reading, matching and writing. It has no goroutine, and what it waits for is
// given to it, so that a simulation can work it.
type Reading struct {
	config  Config
	log     Log
	ours    func() bool // elected, as far as the group has confirmed lately
	started func()      // told when the position is known

	standing standing        // of ledgers behind the cursor, made before this reading began
	pending  map[string]bool // watches that are admitted, whose rows do not say so yet
	ends     appended        // before what is being read is written

	// at is the newest ledger that was, or is being, held against the watches in
	// this term; 0: none yet. It and the way are for what runs beside the reading.
	at  atomic.Uint32
	way way
}

// NewReading makes a reading; of config it leaves Cluster unused.
func NewReading(config Config, log Log, ours func() bool) *Reading {
	if config.OnLedger == nil {
		config.OnLedger = func(LedgerSummary) {}
	}
	return &Reading{config: config, log: log, ours: ours, started: func() {}}
}

// Beside is a reading of another configuration and log that shares this one's
// place in the ledgers: a backfill of it goes as far.
func (f *Reading) Beside(config Config, log Log) *Reading {
	beside := NewReading(config, log, f.ours)
	beside.at.Store(f.at.Load())
	return beside
}

// kafkaLog is the log in Kafka.
type kafkaLog struct {
	*streams.Producer
	cluster streams.Cluster
	ends    *streams.Ends
	fenced  *streams.FencedProducer // nil before the first TakeOver
}

func openLog(c streams.Cluster) (*kafkaLog, error) {
	producer, err := c.NewProducer()
	if err != nil {
		return nil, err
	}
	ends, err := c.NewEnds()
	if err != nil {
		producer.Close()
		return nil, err
	}
	return &kafkaLog{Producer: producer, cluster: c, ends: ends}, nil
}

func (l *kafkaLog) close() {
	if l.fenced != nil {
		l.fenced.Close()
	}
	l.ends.Close()
	l.Producer.Close()
}

// TakeOver takes over the transactional id of the deployment's follower.
func (l *kafkaLog) TakeOver(ctx context.Context) (err error) {
	if l.fenced != nil {
		l.fenced.Close()
	}
	l.fenced, err = l.cluster.NewFencedProducer(ctx, group)
	return err
}

func (l *kafkaLog) Commit(ctx context.Context, records ...streams.Record) error {
	return l.fenced.Append(ctx, records...)
}

func (l *kafkaLog) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return l.ends.Starts(ctx, topic)
}

func (l *kafkaLog) Ends(ctx context.Context, topic string) (map[int32]int64, error) {
	return l.ends.Of(ctx, topic)
}

// PartitionOf places as every producer does, whatever the topic.
func (l *kafkaLog) PartitionOf(_ string, partitions int) func(key string) int32 {
	return streams.PartitionOf(partitions)
}

// readBatch is how many records are taken at once.
const readBatch = 100

// Read reads with a client of its own.
func (l *kafkaLog) Read(
	ctx context.Context, topic string, from, ends map[int32]int64,
	take func(streams.Record) error,
) error {
	reader, err := l.cluster.NewReader(streams.ReaderConfig{
		From:        streams.Offsets{topic: from},
		SkipExpired: true,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.ReadTo(ctx, topic, ends, readBatch, take)
}
