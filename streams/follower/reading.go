package follower

import (
	"context"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

// Log is what reading ledgers needs of the log.
type Log interface {
	// Append returns when all records are acknowledged, or with the first error;
	// then some of them may stand.
	Append(ctx context.Context, records ...streams.Record) error
	// Ledgers gives the first offset and the end of each partition of the topic
	// "ledgers".
	Ledgers(ctx context.Context) (starts, ends map[int32]int64, err error)
	// ReadLedgers gives the records of that topic's partition from an offset up
	// to an end.
	ReadLedgers(ctx context.Context, from, end int64, take func(streams.Record) error) error
}

// Reading is a follower without its election: the cursor, and the order of
// reading, matching and writing. It has no goroutine, and what it waits for is
// given to it, so that a simulation can work it.
type Reading struct {
	config    Config
	log       Log
	extractor *ledger.Extractor
	ours      func() bool // elected, as far as the group has confirmed lately
	started   func()      // told when the position is known

	// at is the newest ledger that was, or is being, held against the watches in
	// this term; 0: none yet. It and the way are for what runs beside the reading.
	at  atomic.Uint32
	way way
}

// NewReading makes a reading; of config it leaves Cluster unused.
func NewReading(config Config, log Log, extractor *ledger.Extractor, ours func() bool) *Reading {
	if config.OnLedger == nil {
		config.OnLedger = func(LedgerSummary) {}
	}
	return &Reading{config: config, log: log, extractor: extractor, ours: ours, started: func() {}}
}

// kafkaLog is the log in Kafka.
type kafkaLog struct {
	*streams.Producer
	cluster streams.Cluster
	ends    *streams.Ends
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
	l.ends.Close()
	l.Producer.Close()
}

// Ledgers asks the brokers.
func (l *kafkaLog) Ledgers(ctx context.Context) (starts, ends map[int32]int64, err error) {
	if ends, err = l.ends.Of(ctx, schemas.TopicLedgers); err != nil {
		return nil, nil, err
	}
	starts, err = l.ends.Starts(ctx, schemas.TopicLedgers)
	return starts, ends, err
}

const ledgersBatch = 100

// ReadLedgers reads with a client of its own.
func (l *kafkaLog) ReadLedgers(ctx context.Context, from, end int64, take func(streams.Record) error) error {
	reader, err := l.cluster.NewReader(streams.ReaderConfig{From: streams.Offsets{schemas.TopicLedgers: {partition: from}}, SkipExpired: true})
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.ReadTo(ctx, schemas.TopicLedgers, map[int32]int64{partition: end}, ledgersBatch, take)
}
