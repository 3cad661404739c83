package follower

import (
	"context"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Log is the part of the log that a reading uses.
type Log interface {
	// TakeOver makes the caller the only one that can commit. Uncommitted records of previous owners
	// are never committed.
	TakeOver(ctx context.Context) error
	// Commit appends records in one transaction. After an error, the outcome is unknown until the next
	// TakeOver.
	Commit(ctx context.Context, records ...kafka.Record) error
	// Starts and Of return the first offset and the end of each partition of a topic.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Of(ctx context.Context, topic string) (map[int32]int64, error)
	// PartitionOf returns a function that maps a key to its partition.
	PartitionOf(topic string, partitions int) func(key string) int32
	// Since returns, for each partition, the offset of the first record that is not older than millis,
	// a Unix time, or the partition's end.
	Since(ctx context.Context, topic string, millis int64) (map[int32]int64, error)
	// Read reads a topic's committed records from offsets up to ends.
	Read(
		ctx context.Context, topic string, from, ends map[int32]int64,
		take func(kafka.Record) error,
	) error
}

// Reading is a follower without its election: the cursor, and the order of reading, matching and
// writing. It has no goroutines, and a simulation can run it.
type Reading struct {
	config    Config
	source    numbered
	log       Log
	isElected func() bool
	started   func() // called when the position is known
	// positioned is called when it is certain which ledgers are skipped, if any: with a cursor, before
	// the records after it are read.
	positioned func()

	appended appendedByLedger // after the cursor, before this reading began
	pending  map[string]bool  // admitted watches whose rows do not show it yet
	ends     topicEnds        // before the current ledger's records
	covered  covered          // the coverage of the next cursor
	readFrom topicEnds        // where reading back started
	from     uint32           // the first ledger to read, or the one of last time
	known    bool             // it was logged

	// at is the newest ledger that was, or is being, matched in this term, or 0. It and the priority
	// are for work that runs in parallel.
	at *atomic.Uint32
	// done is the newest ledger whose cursor is committed.
	done     *atomic.Uint32
	base     *atomic.Uint32 // added to the source's ledger numbers in this chain
	last     atomic.Pointer[schemas.LedgerRead]
	priority priority
}

// NewReading returns a reading. It does not use config.Cluster.
func NewReading(config Config, log Log, isElected func() bool) *Reading {
	if config.OnMatched == nil {
		config.OnMatched = func(LedgerSummary) {}
	}
	if config.OnLedger == nil {
		config.OnLedger = func(LedgerSummary) {}
	}
	r := &Reading{
		config:     config,
		log:        log,
		isElected:  isElected,
		started:    func() {},
		positioned: func() {},
		at:         new(atomic.Uint32),
		done:       new(atomic.Uint32),
	}
	return r.onChain(new(atomic.Uint32))
}

func (r *Reading) onChain(base *atomic.Uint32) *Reading {
	r.base = base
	r.source = numbered{r.config.Source, base}
	return r
}

// WithPosition returns a reading with another configuration and log that shares this one's
// position, up to which its backfills go.
func (r *Reading) WithPosition(config Config, log Log) *Reading {
	other := NewReading(config, log, r.isElected)
	other.at, other.done = r.at, r.done
	return other.onChain(r.base)
}

// Transactional ids of the deployment's follower, without the prefix.
const (
	liveProducer = "follower"
	pastProducer = "follower.backfill"
)

type kafkaLog struct {
	*kafka.Ends
	cluster kafka.Cluster
	id      string // transactional
	allowed func(context.Context) error
	fenced  *kafka.FencedProducer // nil before the first TakeOver
}

func openLog(c kafka.Cluster, id string) (*kafkaLog, error) {
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &kafkaLog{Ends: ends, cluster: c, id: id}, nil
}

func (l *kafkaLog) close() {
	if l.fenced != nil {
		l.fenced.Close()
	}
	l.Ends.Close()
}

// TakeOver takes over the transactional id.
func (l *kafkaLog) TakeOver(ctx context.Context) (err error) {
	if l.fenced != nil {
		l.fenced.Close()
	}
	if l.fenced, err = l.cluster.NewFencedProducer(ctx, l.id); err != nil || l.allowed == nil {
		return err
	}
	return l.allowed(ctx)
}

func (l *kafkaLog) Commit(ctx context.Context, records ...kafka.Record) error {
	return l.fenced.Append(ctx, records...)
}

// PartitionOf partitions like every producer, whatever the topic.
func (l *kafkaLog) PartitionOf(_ string, partitions int) func(key string) int32 {
	return kafka.PartitionOf(partitions)
}

const readBatch = 100

// Read reads with a new client.
func (l *kafkaLog) Read(
	ctx context.Context, topic string, from, ends map[int32]int64, take func(kafka.Record) error,
) error {
	return l.cluster.ReadBetween(ctx, topic, from, ends, readBatch, take)
}
