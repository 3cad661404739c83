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

// Replica is the state of a partition, folded from its journal while another process owns it. It
// must be used by one goroutine.
type Replica[E, C any] struct {
	core *Core[E, C]
	cfg  CoreConfig[E, C]
	log  PartitionLog
}

// PartitionLog is the log of one partition: a [kafka.PartitionReader], or a simulation's.
type PartitionLog interface {
	// Bounds returns a topic's first offset and its end.
	Bounds(ctx context.Context, topic string) (start, end int64, err error)
	// ReadSome returns up to most committed records between two offsets, notes included, and the next
	// offset to read.
	ReadSome(
		ctx context.Context, topic string, from, to int64, most int,
	) (list []kafka.Record, next int64, err error)
	Close()
}

// performRead performs an action that only reads, and returns false for any other.
func performRead[E, C any](
	ctx context.Context, log PartitionLog, c *Core[E, C], action Action,
) (is bool, err error) {
	journal, snapshots := c.cfg.Journal, c.cfg.Snapshots.Topic
	locate := func(topic string, report func(start, end int64) error) error {
		start, end, err := log.Bounds(ctx, topic)
		if err != nil {
			return err
		}
		return report(start, end)
	}
	read := func(
		topic string, from, to int64, most int, report func([]kafka.Record, int64) error,
	) error {
		records, next, err := log.ReadSome(ctx, topic, from, to, most)
		if err != nil {
			return err
		}
		return report(records, next)
	}
	switch a := action.(type) {
	case LocateJournal:
		return true, locate(journal, c.LocatedJournal)
	case LocateSnapshots:
		return true, locate(snapshots, c.LocatedSnapshots)
	case ReadSnapshots:
		return true, read(snapshots, a.From, a.To, chunksAtOnce, c.ReadSnapshots)
	case ReadJournal:
		return true, read(journal, a.From, a.To, restoreBatch, c.ReadJournal)
	default:
		return false, nil
	}
}

// NewReplica opens a replica. It continues from existing state.
func NewReplica[E, C any](cluster kafka.Cluster, cfg CoreConfig[E, C]) (*Replica[E, C], error) {
	return NewReplicaOn(&kafka.PartitionReader{Cluster: cluster, Partition: cfg.Partition}, cfg)
}

// NewReplicaOn is NewReplica with any log, which the replica closes.
func NewReplicaOn[E, C any](log PartitionLog, cfg CoreConfig[E, C]) (*Replica[E, C], error) {
	r := &Replica[E, C]{core: NewCore(cfg), cfg: cfg, log: log}
	if err := r.core.OpenState(); err != nil {
		return nil, err
	}
	return r, nil
}

// CatchUp folds the journal up to an end, and may be called again with a later one. The first call
// rebuilds a state that belongs to another journal. A later call fails instead, because its caller
// has copied inputs by the old state's positions, so that some would be missing.
func (r *Replica[E, C]) CatchUp(ctx context.Context, start, end int64) error {
	if err := r.core.LocatedJournal(start, end); err != nil {
		return err
	}
	for {
		reads, err := performRead(ctx, r.log, r.core, r.core.Next(kafka.Moment{}))
		switch {
		case err != nil:
			return fmt.Errorf("streams: following partition %d of %s: %w", r.cfg.Partition,
				r.cfg.Journal, err)
		case !reads: // only an owner may perform the next action
			r.core.read = true
			return r.core.commitRestored()
		}
	}
}

// Folded returns the offset of the next journal record to fold.
func (r *Replica[E, C]) Folded() int64 { return r.core.Folded() }

// Taken returns the owner's input positions, by topic, or false if they are not in the journal.
func (r *Replica[E, C]) Taken() (positions map[string]int64, known bool) {
	return maps.Clone(r.core.progress.positions), r.core.progress.positions != nil
}

// Store returns the state, which is complete up to Folded between calls of CatchUp.
func (r *Replica[E, C]) Store() *store.Store { return r.core.Store() }

// Close closes the state.
func (r *Replica[E, C]) Close() error {
	r.log.Close()
	return r.core.Close()
}

// bookmark identifies the last record that is folded into a state, a fact or a note, by its offset
// and a checksum. A checkpoint alone is not enough: if the journal was truncated, by an unclean
// election or manually, and has grown beyond the checkpoint again, it has another record at that
// offset, or none. A copy may also have received a record that was never committed.
type bookmark struct {
	offset int64
	sum    uint32
	known  bool // false if nothing is folded, or a version without bookmarks folded it
}

var bookmarkKey = []byte{store.KeySpaceOwn, 'b'}

func bookmarkOf(offset int64, r kafka.Record) bookmark {
	return bookmark{offset: offset, sum: checksum(r), known: true}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
