package follower

import (
	"context"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Log is the part of the log that a reading uses.
type Log interface {
	// TakeOver makes the caller the only one that can commit. What a former owner has not committed
	// by then is never committed.
	TakeOver(ctx context.Context) error
	// Commit appends records in one transaction. After an error the outcome is unknown
	// until the next TakeOver.
	Commit(ctx context.Context, records ...kafka.Record) error
	// Starts and Of return the first offset and the end of each partition of a topic.
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Of(ctx context.Context, topic string) (map[int32]int64, error)
	// PartitionOf returns the function that maps a key to its partition, in a topic with that many
	// partitions.
	PartitionOf(topic string, partitions int) func(key string) int32
	// Since returns the offset of the first record of each partition that is not older than a Unix
	// time in milliseconds, or the partition's end.
	Since(ctx context.Context, topic string, millis int64) (map[int32]int64, error)
	// Read reads the committed records of a topic from offsets up to ends.
	Read(
		ctx context.Context, topic string, from, ends map[int32]int64,
		take func(kafka.Record) error,
	) error
}

// Reading is a follower without its election: the cursor, and the order of reading, matching and
// writing. It has no goroutine, and its dependencies are interfaces, so that a simulation can run
// it.
type Reading struct {
	config    Config
	source    numbered // config.Source
	log       Log
	isElected func() bool // reports whether the group has recently confirmed the election
	started   func()      // called when the position is known
	// positioned is called when it is certain which ledgers are skipped, if any. If there is a
	// cursor, that is before the records after it are read.
	positioned func()

	appended appendedByLedger // after the cursor, before this reading began
	pending  map[string]bool  // admitted watches whose rows do not say so yet
	ends     topicEnds        // before the current ledger's records are written
	covered  covered          // the coverage that the next cursor records
	readFrom topicEnds        // the offsets from which records were read back
	from     uint32           // the first ledger to read, or that was read last time
	known    bool             // that ledger was logged

	// at is the newest ledger that was, or is being, matched in this term; 0: none yet. It and the
	// priority are for work that runs concurrently.
	at *atomic.Uint32
	// done is the newest ledger whose cursor is committed.
	done     *atomic.Uint32
	base     *atomic.Uint32 // the offset of ledger numbers in the chain that is followed
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

// onChain makes the reading's sources number their ledgers from a base.
func (r *Reading) onChain(base *atomic.Uint32) *Reading {
	r.base = base
	r.source = numbered{r.config.Source, base}
	return r
}

// WithPosition returns a reading with another configuration and log that shares this one's
// position: its backfills go up to it.
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

// kafkaLog is the log in Kafka.
type kafkaLog struct {
	*kafka.Ends
	cluster kafka.Cluster
	id      string                      // transactional
	allowed func(context.Context) error // as in Config
	fenced  *kafka.FencedProducer       // nil before the first TakeOver
}

// openLog opens a log whose transactions have an id.
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

// readBatch is how many records are polled at once.
const readBatch = 100

// Read reads with a new client.
func (l *kafkaLog) Read(
	ctx context.Context, topic string, from, ends map[int32]int64, take func(kafka.Record) error,
) error {
	return l.cluster.ReadBetween(ctx, topic, from, ends, readBatch, take)
}
