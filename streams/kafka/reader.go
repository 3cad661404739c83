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

// Offsets maps topics and partitions to positions.
type Offsets map[string]map[int32]int64

// unknownEpoch is used before the first record, and for brokers without leader epochs.
const unknownEpoch = -1

// ErrCut means that records that were already read are no longer in their topic: it was truncated,
// for example by an unclean election. Data derived from them cannot be trusted.
var ErrCut = errors.New("records that were already read are no longer in the topic: it was " +
	"truncated, for example by an unclean leader election")

// ReaderConfig configures a reader.
type ReaderConfig struct {
	From Offsets
	// SkipExpired continues at the oldest record if retention has deleted the requested one.
	SkipExpired bool
	// Notes also returns the tasks' notes and the fillers of a copy.
	Notes bool
	// MaxBytes bounds the fetched records that are not yet polled, per broker. The default is 4 MiB.
	// Compressed records take about four times as much memory.
	MaxBytes int32
	// StallTimeout is how long ReadTo waits for the next record. The default of 60 s exceeds how long
	// a dead owner's transaction can stay open: its timeout, a coordinator failover, and the
	// coordinator's checks every 10 s.
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
	ends      Offsets                    // at the latest fetches
	epochs    map[string]map[int32]int32 // of the latest records
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

// Poll waits for records and calls take with at most max of them, in partition order. Control
// records and tasks' notes only advance the position. It returns when a position has advanced, or
// with the first error of take, with ErrAborted, or when ctx is done.
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

func orCut(err error) error {
	if lost, is := errors.AsType[*kgo.ErrDataLoss](err); is {
		return fmt.Errorf("%w: %w", ErrCut, lost)
	}
	return err
}

// ReadTo polls until the partitions are read up to ends, or no record arrives for StallTimeout.
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

// ReadBetween reads partitions between two sets of offsets, polling up to max records at a time. It
// may return records after the end, and skips records that retention has deleted.
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

// PollTowards polls once. It fails if no record arrives for StallTimeout.
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
			return fmt.Errorf("streams: no record arrived for %s while partition %d of %s is read to "+
				"offset %d of %d: the brokers cannot be reached, or an open transaction blocks the last "+
				"records (find it with kafka-transactions.sh find-hanging, and abort it)",
				r.stall, p, topic, at, end)
		}
	}
	return nil
}

// Position returns the offset of the next record of a partition.
func (r *Reader) Position(topic string, partition int32) int64 {
	return r.positions[topic][partition]
}

// Epoch returns the epoch of the leader that wrote the latest record; negative before the first.
func (r *Reader) Epoch(topic string, partition int32) int32 {
	return r.epochs[topic][partition]
}

// Behind returns how many offsets of a partition were unread when its latest record arrived.
func (r *Reader) Behind(topic string, partition int32) int64 {
	return max(0, r.ends[topic][partition]-r.positions[topic][partition])
}

// Passed reports whether the reader's positions have reached ends.
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

// PartitionReader reads one partition, of one topic at a time. It must be used by one goroutine.
type PartitionReader struct {
	Cluster   Cluster
	Partition int32
	MaxBytes  int32 // as in ReaderConfig
	Ends      *Ends // opened for each call if nil

	topic  string
	reader *Reader
}

// From returns a reader at an offset. It reuses the latest reader if that is at the offset.
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

// ReadSome reads up to most records between two offsets, and returns the next offset to read.
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
	starts, all, err := ends.Extent(ctx, topic)
	return starts[p.Partition], all[p.Partition], err
}

// Close closes the current reader, if any.
func (p *PartitionReader) Close() {
	if p.reader != nil {
		p.reader.Close()
		p.reader = nil
	}
}
