package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets are positions by topic and partition.
type Offsets map[string]map[int32]int64

// unknownEpoch is the epoch if there is no record, or if a broker without leader epochs wrote it.
const unknownEpoch = -1

// ErrCut means that records that were read are no longer in their topic: it was truncated, for
// example by an unclean election. Data derived from them cannot be trusted.
var ErrCut = errors.New("records that were read before are gone from the topic: it was cut, as " +
	"an unclean election does")

// ReaderConfig configures a reader.
type ReaderConfig struct {
	From Offsets
	// SkipExpired continues at the oldest record if retention has deleted the requested one.
	// Otherwise that is an error.
	SkipExpired bool
	// Notes also returns the notes of tasks in their journal, and the fillers of a copy.
	Notes bool
	// MaxBytes bounds the fetched records that are not yet polled, per broker; 0: 4 MiB. Compressed
	// records take about four times as much in memory.
	MaxBytes int32
	// StallTimeout is how long ReadTo waits for the next record before it fails; 0: 60 s. It is
	// longer than the open transaction of a dead owner can last: its timeout, a failover of its
	// coordinator, and the coordinator's checks every 10 s.
	StallTimeout time.Duration
}

// Reader reads committed records of partitions from given positions. It must be used by one
// goroutine.
type Reader struct {
	cluster   Cluster
	client    *kgo.Client
	positions Offsets
	stall     time.Duration
	notes     bool
	marks     marks
	ends      Offsets                    // of the partitions, by the latest fetches
	epochs    map[string]map[int32]int32 // of the leaders that wrote the latest records
}

const (
	defaultReaderMaxBytes = 4 << 20
	defaultStallTimeout   = 6 * TransactionTimeout
)

// NewReader opens a reader.
func (c Cluster) NewReader(cfg ReaderConfig) (*Reader, error) {
	r := &Reader{
		cluster:   c,
		positions: make(Offsets),
		ends:      make(Offsets),
		epochs:    make(map[string]map[int32]int32),
		stall:     cmp.Or(cfg.StallTimeout, defaultStallTimeout),
		marks:     newMarks(),
	}
	from := make(map[string]map[int32]kgo.Offset)
	for topic, partitions := range cfg.From {
		r.positions[topic] = maps.Clone(partitions)
		r.ends[topic] = make(map[int32]int64)
		r.epochs[topic] = make(map[int32]int32)
		full := make(map[int32]kgo.Offset)
		for p, at := range partitions {
			r.epochs[topic][p] = unknownEpoch
			full[p] = kgo.NewOffset().At(at)
		}
		from[c.fullName(topic)] = full
	}
	reset := kgo.NoResetOffset()
	if cfg.SkipExpired {
		reset = kgo.NewOffset().AtStart()
	}
	r.notes = cfg.Notes
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, defaultReaderMaxBytes)
	client, err := c.client(
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(reset),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(cfg.MaxBytes),
		kgo.FetchMaxPartitionBytes(cfg.MaxBytes),
	)
	if err != nil {
		return nil, err
	}
	r.client = client
	return r, nil
}

// Poll waits for records, and calls take with at most max of them, in partition order. Control
// records and notes of tasks are skipped, but advance the position. It returns when at least one
// position has advanced, with take's first error, with ErrAborted, or when ctx ends.
func (r *Reader) Poll(ctx context.Context, max int, take func(Record) error) error {
	fetches := r.client.PollRecords(ctx, max)
	if err := fetches.Err0(); err != nil {
		return orCut(err)
	}
	var failed error
	fetches.EachError(func(topic string, p int32, err error) {
		failed = errors.Join(failed, fmt.Errorf("streams: reading %s/%d: %w", topic, p, orCut(err)))
	})
	if failed != nil {
		return failed
	}
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		r.ends[r.cluster.shortName(f.Topic)][f.Partition] = f.HighWatermark
	})
	for it := fetches.RecordIter(); !it.Done(); {
		k := it.Next()
		if err := r.marks.pass(k); err != nil {
			return err
		}
		record := r.cluster.fromKafka(k)
		if !k.Attrs.IsControl() && (r.notes || !IsNote(record)) {
			if err := take(record); err != nil {
				return err
			}
		}
		r.positions[record.Topic][record.Partition] = record.Offset + 1
		r.epochs[record.Topic][record.Partition] = k.LeaderEpoch
	}
	return nil
}

// orCut returns ErrCut if the client reports lost records.
func orCut(err error) error {
	if lost, is := errors.AsType[*kgo.ErrDataLoss](err); is {
		return fmt.Errorf("%w: %w", ErrCut, lost)
	}
	return err
}

// ReadTo polls until a topic's partitions are read up to these ends. It fails if no record arrives
// for StallTimeout before that.
func (r *Reader) ReadTo(
	ctx context.Context, topic string, ends map[int32]int64, max int,
	take func(Record) error,
) error {
	for !r.Passed(topic, ends) {
		if err := r.PollTowards(ctx, topic, ends, max, take); err != nil {
			return err
		}
	}
	return nil
}

// ReadBetween reads a topic's partitions between two sets of offsets with a new reader, up to max
// records at a time. It may return records after the end. It skips records that retention has
// deleted.
func (c Cluster) ReadBetween(
	ctx context.Context, topic string, from, to map[int32]int64, max int, take func(Record) error,
) error {
	r, err := c.NewReader(ReaderConfig{From: Offsets{topic: from}, SkipExpired: true})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.ReadTo(ctx, topic, to, max, take)
}

// PollTowards is a single Poll on the way to these ends.
func (r *Reader) PollTowards(
	ctx context.Context, topic string, ends map[int32]int64, max int,
	take func(Record) error,
) error {
	patient, cancel := context.WithTimeout(ctx, r.stall)
	defer cancel()
	err := r.Poll(patient, max, take)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return r.stallError(topic, ends)
	}
	return err
}

func (r *Reader) stallError(topic string, ends map[int32]int64) error {
	for p, end := range ends {
		if at := r.positions[topic][p]; at < end {
			return fmt.Errorf("streams: nothing came for %s while partition %d of %s is read to offset %d "+
				"of %d: the brokers cannot be reached, or an open transaction holds the last "+
				"records back (kafka-transactions.sh find-hanging names it, abort ends it)",
				r.stall, p, topic, at, end)
		}
	}
	return nil
}

// Position returns the offset of the next record of a partition.
func (r *Reader) Position(topic string, partition int32) int64 {
	return r.positions[topic][partition]
}

// Epoch returns the epoch of the leader that wrote the latest record, or a negative number before
// the first record.
func (r *Reader) Epoch(topic string, partition int32) int32 {
	return r.epochs[topic][partition]
}

// Behind returns the number of unread offsets of a partition at the time when its latest record
// arrived.
func (r *Reader) Behind(topic string, partition int32) int64 {
	return max(0, r.ends[topic][partition]-r.positions[topic][partition])
}

// Passed reports whether the reader's positions have reached these ends.
func (r *Reader) Passed(topic string, ends map[int32]int64) bool {
	for p, end := range ends {
		if r.positions[topic][p] < end {
			return false
		}
	}
	return true
}

// Close closes the client.
func (r *Reader) Close() { r.client.Close() }

// PartitionReader reads one partition, of one topic after another. It must be used by one
// goroutine.
type PartitionReader struct {
	Cluster   Cluster
	Partition int32
	MaxBytes  int32 // as in ReaderConfig
	Ends      *Ends // nil: with a client of its own

	topic  string
	reader *Reader // nil until the first read
}

// From returns a reader at an offset. It reuses the latest one if that is at the offset.
func (p *PartitionReader) From(topic string, offset int64) (*Reader, error) {
	if p.reader != nil && p.topic == topic && p.reader.Position(topic, p.Partition) == offset {
		return p.reader, nil
	}
	p.Close()
	reader, err := p.Cluster.NewReader(ReaderConfig{
		From:     Offsets{topic: {p.Partition: offset}},
		Notes:    true,
		MaxBytes: p.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	p.reader, p.topic = reader, topic
	return reader, nil
}

// ReadSome reads up to most records between two offsets, and returns the offset to read next.
func (p *PartitionReader) ReadSome(
	ctx context.Context, topic string, from, to int64, most int,
) (records []Record, next int64, err error) {
	r, err := p.From(topic, from)
	if err != nil {
		return nil, 0, err
	}
	err = r.PollTowards(ctx, topic, map[int32]int64{p.Partition: to}, most, func(r Record) error {
		records = append(records, r)
		return nil
	})
	return records, r.Position(topic, p.Partition), err
}

// Bounds returns the partition's first offset and its end.
func (p *PartitionReader) Bounds(
	ctx context.Context, topic string,
) (start, end int64, err error) {
	ends := p.Ends
	if ends == nil {
		if ends, err = p.Cluster.NewEnds(); err != nil {
			return 0, 0, err
		}
		defer ends.Close()
	}
	starts, err := ends.Starts(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	all, err := ends.Of(ctx, topic)
	return starts[p.Partition], all[p.Partition], err
}

// Close closes the reader, if there is one.
func (p *PartitionReader) Close() {
	if p.reader != nil {
		p.reader.Close()
		p.reader = nil
	}
}
