package task

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// SnapshotConfig configures the snapshots of a core's state.
type SnapshotConfig struct {
	Topic string // empty: no snapshots
	// Identity names the kind of the state and its format. A snapshot with another identity is not
	// loaded, unless the identity is listed in Earlier. It does not name the journal: the journal
	// is checked by the last record that the snapshot has folded.
	Identity string
	// Earlier lists older formats that are loaded as well.
	Earlier []EarlierFormat
	// Advise returns what to do about snapshots with an identity that is not loaded, when nothing
	// else completes the journal. nil or an empty string: no advice.
	Advise func(identity string) string
	// Every is the number of journal offsets between two snapshots. 0: 65,536 offsets, and at least
	// twice the size of the latest snapshot in bytes. Only the simulation sets it.
	Every int64
	// ChunkBytes is the size of keys and values at which a chunk ends; 0: 384 KiB. Only the
	// simulation sets it, because its states are small.
	ChunkBytes int
	// Rest is shared by successive tasks of a partition. nil: each task has its own.
	Rest *SnapshotRest
}

// EarlierFormat is the format of snapshots that were written before an upgrade.
type EarlierFormat struct {
	Identity string
	Convert  Conversion
}

// Conversion converts a state of an earlier format to the current one.
type Conversion struct {
	// Entry converts one entry to any number of current entries. It must be a function of the entry
	// alone, and must not retain key or value. It sees all entries of a state, including those of
	// the timer index and the store's own (store.go), and must pass on unchanged the ones whose
	// meaning has not changed. nil: all entries stay unchanged.
	Entry func(key, value []byte, put func(key, value []byte) error) error
	// Whole performs the part of the conversion that needs the complete state, after all entries
	// are stored. nil: nothing.
	Whole func(*store.Store) error
}

const (
	// defaultSnapshotEvery is about a second of folding.
	defaultSnapshotEvery = 65_536
	// snapshotGrowth is how many bytes the journal grows for each byte of the latest snapshot
	// before the next one begins.
	snapshotGrowth = 2
)

// identity includes the format of the store's own entries.
func (c SnapshotConfig) identity() string { return store.IdentityOf(c.Identity) }

// reads reports whether snapshots with an identity are loaded, and how their entries are converted.
// convert is nil if they need no conversion.
func (c SnapshotConfig) reads(identity string) (convert *Conversion, does bool) {
	if identity == c.identity() {
		return nil, true
	}
	for _, e := range c.Earlier {
		if identity == store.IdentityOf(e.Identity) {
			return &e.Convert, true
		}
	}
	return nil, false
}

func (c SnapshotConfig) advise(identity string) string {
	_, identity, _ = strings.Cut(identity, ": ")
	if identity == "" || c.Advise == nil {
		return ""
	}
	return c.Advise(identity)
}

// NeededFrom holds the offsets of the first records that a restore may still read, in the journal
// and in the snapshot topic. All records before them may be deleted.
type NeededFrom struct{ Journal, Snapshots int64 }

// snapshots writes snapshots of a core's state, one at a time: each turn includes the next records
// of it. A snapshot begins when the journal has grown by twice the size of the latest snapshot.
type snapshots struct {
	kept   keptSnapshots
	writer *snapshotWriter // nil unless a snapshot is being written
	place  keptSnapshot    // of the snapshot that is being written
	grown  int64           // bytes of the journal when it began
	ending bool            // this turn writes the manifest
	// records is the number of snapshot records that the turn writes. first reports whether the
	// first one is among them.
	records int
	begins  bool
	// writing reports that the turn writes snapshot records.
	writing bool
	held    held
}

// reset is for an empty state, which has no snapshots.
func (s *snapshots) reset() { s.kept, s.held = keptSnapshots{}, held{} }

// keptSnapshots is the state's own record of its snapshots.
type keptSnapshots struct {
	Latest, Before keptSnapshot // no ID: there is no such snapshot
}

// keptSnapshot is a complete snapshot.
type keptSnapshot struct {
	ID    string
	First int64 // offset of its first chunk
	Next  int64 // offset up to which the journal is folded
	Fact  int64 // offset of the last folded record, which a start reads again
	Bytes int64 // of keys and values
}

var (
	snapshotsKey = []byte{store.KeySpaceOwn, 's'}
	// grownKey holds the number of bytes by which the journal has grown since the latest snapshot.
	grownKey = []byte{store.KeySpaceOwn, 'g'}
	// heldKey is present in a converted state, and in its snapshots, while holdConverted lasts. It
	// holds the time since when a task has worked with the state, 8 bytes; 0: no task has yet.
	heldKey = []byte{store.KeySpaceOwn, 'h'}
)

// holdConverted is how long a converted state frees nothing, so that the previous release still
// finds its snapshots and the journal after them. During a rolling upgrade the previous release may
// still own partitions, and the upgrade may be rolled back.
const holdConverted = 24 * time.Hour

// held says whether a state was converted, and since when a task has worked with it.
type held struct {
	is    bool
	since int64 // by the wall clock; 0: no task has
}

func (h *held) load(s *store.Store) error {
	*h = held{}
	value, err := s.Get(heldKey)
	if err != nil || len(value) != 8 {
		return err
	}
	h.is, h.since = true, int64(binary.BigEndian.Uint64(value))
	return nil
}

func (h *held) save(b *store.Batch) error {
	return b.Set(heldKey, binary.BigEndian.AppendUint64(nil, uint64(h.since)))
}

// advance starts or ends the time during which a converted state frees nothing.
func (h *held) advance(b *store.Batch, nowMillis int64) error {
	switch {
	case !h.is:
	case h.since == 0 || nowMillis < h.since: // otherwise a clock that was ahead would extend it
		h.since = nowMillis
		return h.save(b)
	case nowMillis-h.since >= holdConverted.Milliseconds():
		*h = held{}
		return b.Delete(heldKey)
	}
	return nil
}

func (k *keptSnapshots) load(s *store.Store) error {
	value, err := s.Get(snapshotsKey)
	if err != nil || value == nil {
		return err
	}
	if err := json.Unmarshal(value, k); err != nil {
		return fmt.Errorf("streams: reading where the latest snapshots are: %w", err)
	}
	return nil
}

func (k *keptSnapshots) save(b *store.Batch) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("streams: noting where the latest snapshots are: %w", err)
	}
	return b.Set(snapshotsKey, value)
}

// NeededFrom returns the offsets that a restore from the older of two complete snapshots reads,
// because the newer one may turn out to be damaged. With fewer than two, and for holdConverted
// after a conversion, everything is needed.
func (c *Core[E, C]) NeededFrom() NeededFrom {
	if c.snapshots.held.is {
		return NeededFrom{}
	}
	older := c.snapshots.kept.Before
	return NeededFrom{Journal: max(0, older.Fact), Snapshots: older.First}
}

// snapshotDue reports whether the journal has grown enough since the latest snapshot, and no
// failure is recent.
func (c *Core[E, C]) snapshotDue(now kafka.Moment) bool {
	if c.cfg.Snapshots.Topic == "" || !c.working || c.draining ||
		!c.cfg.Snapshots.Rest.over(now.WallMillis) {
		return false
	}
	latest := c.snapshots.kept.Latest
	offsets := c.progress.next - latest.Next
	if every := c.cfg.Snapshots.Every; every > 0 {
		return offsets >= every
	}
	return offsets >= defaultSnapshotEvery && c.progress.grown >= snapshotGrowth*latest.Bytes
}

// beginSnapshot takes a view of the state if a snapshot is due. The following turns write it.
func (c *Core[E, C]) beginSnapshot(now kafka.Moment) (err error) {
	s := &c.snapshots
	if s.writer != nil || !c.snapshotDue(now) {
		return nil
	}
	next := c.progress.next
	// The id is unique: the start record differs by owner, the checksum by journal.
	id := fmt.Sprintf("%d.%d.%08x", next, c.restore.to, c.progress.mark.sum)
	s.place = keptSnapshot{ID: id, Next: next, Fact: c.progress.firstUnproved()}
	s.grown = c.progress.grown
	s.writer, err = newSnapshotWriter(c.store, c.cfg.Snapshots,
		manifest{ID: id, Identity: c.cfg.Snapshots.identity(), Next: next})
	return err
}

const (
	// snapshotPace is the number of state bytes written for each byte that a turn adds to the
	// journal.
	snapshotPace = 4
	// mostChunksOfATurn bounds the number of chunks that a turn writes.
	mostChunksOfATurn = 16
)

// writeSnapshot adds the next records of the snapshot to the turn: at least one, and enough for the
// snapshot to be complete when the journal has grown by a quarter of the state, however large the
// turns are. Until it is complete, the journal is kept from the start of the snapshot before the
// latest one.
func (c *Core[E, C]) writeSnapshot() error {
	s := &c.snapshots
	if s.writer == nil || c.draining {
		return nil
	}
	s.writing = true
	m := &s.writer.manifest
	s.begins, s.records = m.Chunks == 0, 0
	until := m.Bytes
	for _, r := range c.turn.out {
		if r.Topic == c.cfg.Journal {
			until += snapshotPace * r.Size()
		}
	}
	for !s.ending && s.records < mostChunksOfATurn && (s.records == 0 || m.Bytes < until) {
		r, last, err := s.writer.next()
		if err != nil {
			return err
		}
		c.turn.Append(r)
		s.ending = last
		s.records++
	}
	return nil
}

// failedSnapshot pauses snapshots if the failed turn wrote snapshot records.
func (c *Core[E, C]) failedSnapshot(why error, now kafka.Moment) {
	if !c.snapshots.writing {
		return
	}
	c.snapshots.writing = false
	rest := c.cfg.Snapshots.Rest
	c.cfg.Logger.Warn("a turn with a part of a snapshot failed; the partition continues without "+
		"snapshots for a while", "partition", c.cfg.Partition, "topic", c.cfg.Snapshots.Topic,
		"rest", rest.failed(now.WallMillis), "failures", rest.Failures(), "error", why)
}

// wroteSnapshot records that the turn's snapshot records are committed. end is the offset after
// them.
func (s *snapshots) wroteSnapshot(end int64) {
	s.writing = false
	if s.writer != nil && end > 0 && s.begins && s.writer.manifest.Chunks > 0 {
		s.place.First = end - int64(s.records)
	}
	s.begins = false
}

// noteSnapshot records in the turn's state that the snapshot is complete, if it is.
func (c *Core[E, C]) noteSnapshot(b *store.Batch) (whole bool, err error) {
	s := &c.snapshots
	if !s.ending {
		return false, nil
	}
	s.ending = false
	c.cfg.Snapshots.Rest.succeeded()
	s.place.Bytes = s.writer.manifest.Bytes
	s.kept = keptSnapshots{Latest: s.place, Before: s.kept.Latest}
	c.progress.grown -= s.grown
	return true, errors.Join(c.dropSnapshot(), s.kept.save(b), saveGrown(b, c.progress.grown))
}

func (c *Core[E, C]) dropSnapshot() error {
	s := &c.snapshots
	if s.writer == nil {
		return nil
	}
	writer := s.writer
	s.writer = nil
	return writer.close()
}

// loadGrown returns the number of bytes by which the journal has grown since the latest snapshot.
func loadGrown(s *store.Store) (int64, error) {
	value, err := s.Get(grownKey)
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

func saveGrown(b *store.Batch, grown int64) error {
	return b.Set(grownKey, binary.BigEndian.AppendUint64(nil, uint64(grown)))
}
