package task

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// Replica is the state of a partition, folded from its journal while its owner keeps the partition.
// It must be used by one goroutine.
type Replica[E, C any] struct {
	core *Core[E, C]
	cfg  CoreConfig[E, C]
	log  ReplicaLog
}

// ReplicaLog is the log that a replica reads: one partition of each topic.
type ReplicaLog interface {
	// Bounds returns the first and end offsets of a topic.
	Bounds(ctx context.Context, topic string) (start, end int64, err error)
	// ReadSome returns committed records of a topic, including its task's notes, from an offset
	// towards an end, and the offset to read next.
	ReadSome(
		ctx context.Context, topic string, from, to int64,
	) (list []kafka.Record, next int64, err error)
	Close()
}

// NewReplica opens the state of a replica. It continues where a previous replica on the same state
// stopped.
func NewReplica[E, C any](cluster kafka.Cluster, cfg CoreConfig[E, C]) (*Replica[E, C], error) {
	return NewReplicaOn(&replicaReaders{
		cluster:   cluster,
		partition: cfg.Partition,
		readers:   make(map[string]*kafka.Reader),
	}, cfg)
}

// NewReplicaOn is NewReplica on any log, which the replica closes.
func NewReplicaOn[E, C any](log ReplicaLog, cfg CoreConfig[E, C]) (*Replica[E, C], error) {
	r := &Replica[E, C]{core: NewCore(cfg), cfg: cfg, log: log}
	if err := r.core.TookOver(); err != nil {
		return nil, err
	}
	return r, nil
}

// CatchUp folds the journal from its first offset up to an end. It may be called again with a later
// end. If the state belongs to another journal, the first call rebuilds it. A later call fails
// instead, because its caller has copied inputs by the positions of the old state, and some would
// be missing.
func (r *Replica[E, C]) CatchUp(ctx context.Context, start, end int64) error {
	if err := r.core.LocatedJournal(start, end); err != nil {
		return err
	}
	for {
		var err error
		switch a := r.core.Next(kafka.Moment{}).(type) {
		case ReadJournal:
			err = r.read(ctx, r.cfg.Journal, a.From, a.To, r.core.ReadJournal)
		case LocateSnapshots:
			err = r.locateSnapshots(ctx)
		case ReadSnapshots:
			err = r.read(ctx, r.cfg.Snapshots.Topic, a.From, a.To, r.core.ReadSnapshots)
		default: // only an owner may perform the next action
			r.core.read = true
			return r.core.commitRestored()
		}
		if err != nil {
			return fmt.Errorf("streams: following partition %d of %s: %w", r.cfg.Partition,
				r.cfg.Journal, err)
		}
	}
}

func (r *Replica[E, C]) locateSnapshots(ctx context.Context) error {
	start, end, err := r.log.Bounds(ctx, r.cfg.Snapshots.Topic)
	if err != nil {
		return err
	}
	return r.core.LocatedSnapshots(start, end)
}

func (r *Replica[E, C]) read(
	ctx context.Context, topic string, from, to int64, take func([]kafka.Record, int64) error,
) error {
	records, next, err := r.log.ReadSome(ctx, topic, from, to)
	if err != nil {
		return err
	}
	return take(records, next)
}

// Folded returns the offset of the journal that is folded next.
func (r *Replica[E, C]) Folded() int64 { return r.core.Folded() }

// Taken returns the offsets up to which the owner had taken its inputs, by topic; false if the
// journal has no positions.
func (r *Replica[E, C]) Taken() (positions map[string]int64, known bool) {
	return maps.Clone(r.core.progress.positions), r.core.progress.positions != nil
}

// Store returns the state. Between two calls of CatchUp it is complete up to Folded.
func (r *Replica[E, C]) Store() *store.Store { return r.core.Store() }

// Close closes the state.
func (r *Replica[E, C]) Close() error {
	r.log.Close()
	return r.core.Close()
}

// replicaReaders reads one partition of a cluster.
type replicaReaders struct {
	cluster   kafka.Cluster
	partition int32
	readers   map[string]*kafka.Reader // by topic
}

func (l *replicaReaders) Bounds(ctx context.Context, topic string) (start, end int64, err error) {
	ends, err := l.cluster.NewEnds()
	if err != nil {
		return 0, 0, err
	}
	defer ends.Close()
	starts, err := ends.Starts(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	known, err := ends.Of(ctx, topic)
	return starts[l.partition], known[l.partition], err
}

func (l *replicaReaders) ReadSome(
	ctx context.Context, topic string, from, to int64,
) (list []kafka.Record, next int64, err error) {
	p := l.partition
	reader := l.readers[topic]
	if reader == nil || reader.Position(topic, p) != from {
		if reader != nil {
			reader.Close()
		}
		reader, err = l.cluster.NewReader(kafka.ReaderConfig{
			From:  kafka.Offsets{topic: {p: from}},
			Notes: true,
		})
		if err != nil {
			return nil, 0, err
		}
		l.readers[topic] = reader
	}
	err = reader.PollTowards(ctx, topic, map[int32]int64{p: to}, restoreBatch,
		func(r kafka.Record) error {
			list = append(list, r)
			return nil
		})
	return list, reader.Position(topic, p), err
}

func (l *replicaReaders) Close() {
	for _, reader := range l.readers {
		reader.Close()
	}
}

// bookmark identifies the last record, a fact or a note, that is folded into a state, by its
// journal offset and a checksum. A checkpoint alone is not enough: a journal that was truncated, by
// an unclean election or by hand, and has grown past the checkpoint again has another record at
// that offset, or no record. Also, a copy may have received a record that was never committed.
// Notes count, because input positions come from them.
type bookmark struct {
	offset int64
	sum    uint32
	known  bool // false: nothing is folded yet, or a program without bookmarks folded it
}

var bookmarkKey = []byte{store.KeySpaceOwn, 'b'}

func bookmarkOf(offset int64, r kafka.Record) bookmark {
	return bookmark{offset: offset, sum: checksum(r), known: true}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers a record's key, value and headers.
func checksum(r kafka.Record) uint32 {
	sum := crc32.Update(crc32.Checksum(r.Key, castagnoli), castagnoli, r.Value)
	for _, h := range r.Headers {
		sum = crc32.Update(crc32.Update(sum, castagnoli, []byte(h.Key)), castagnoli, h.Value)
	}
	return sum
}

func (b bookmark) set(batch *store.Batch) error {
	if !b.known {
		return nil
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(b.offset))
	return batch.Set(bookmarkKey, binary.BigEndian.AppendUint32(value, b.sum))
}

func loadBookmark(s *store.Store) (b bookmark, err error) {
	value, err := s.Get(bookmarkKey)
	if err != nil || len(value) != 12 {
		return b, err
	}
	b.offset, b.known = int64(binary.BigEndian.Uint64(value)), true
	b.sum = binary.BigEndian.Uint32(value[8:])
	return b, nil
}
