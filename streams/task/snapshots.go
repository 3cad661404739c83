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
	Topic string // empty for no snapshots
	// Identity identifies the kind of state and its format, but not the journal, which is checked by
	// the snapshot's last folded record. Snapshots with another identity are only loaded if it is in
	// Earlier.
	Identity string
	// Earlier lists older formats that can be loaded.
	Earlier []EarlierFormat
	// Advise, if set, returns what to do about snapshots that cannot be loaded because of their
	// identity, if nothing else completes the journal.
	Advise func(identity string) string
	// Every is the number of journal offsets between snapshots. By default, a snapshot is due after
	// 65,536 offsets, once the journal has also grown by twice the size of the latest snapshot. Only
	// the simulation sets it.
	Every int64
	// ChunkBytes is the size of a chunk. The default is 384 KiB. Only the simulation sets it.
	ChunkBytes int
	// Rest is shared by successive tasks of a partition. If nil, each task has its own.
	Rest *SnapshotRest
}

// EarlierFormat is the format of snapshots from before an upgrade.
type EarlierFormat struct {
	Identity string
	Convert  Conversion
}

// Conversion converts a state of an earlier format to the current one.
type Conversion struct {
	// Entry converts one entry of a state to any number of current ones. It must depend on the entry
	// alone, and must not retain key or value. It must pass on unchanged entries, which include those
	// of the timer index and the store's own (store.go). If nil, all entries stay the same.
	Entry func(key, value []byte, put func(key, value []byte) error) error
	// Whole, if set, is called after all entries are stored, for conversions that need the complete
	// state.
	Whole func(*store.Store) error
}

const (
	// defaultSnapshotEvery is about a second of folding.
	defaultSnapshotEvery = 65_536
	// snapshotGrowth is how many bytes the journal grows per byte of the latest snapshot before the
	// next one.
	snapshotGrowth = 2
)

// identity includes the format of the store's own entries.
func (c SnapshotConfig) identity() string { return store.IdentityOf(c.Identity) }

// reads reports whether snapshots with an identity can be loaded, and with which conversion.
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

// NeededFrom contains the offsets, in the journal and in the snapshot topic, from which a restore
// may still read.
type NeededFrom struct{ Journal, Snapshots int64 }

// snapshots writes snapshots of a core's state, one at a time, a few records per turn.
type snapshots struct {
	kept   keptSnapshots
	writer *snapshotWriter // nil unless a snapshot is being written
	place  keptSnapshot    // of the snapshot being written
	grown  int64           // journal growth in bytes when it began
	ending bool            // this turn writes the manifest
	// records is the number of the turn's snapshot records. begins reports whether the snapshot's
	// first record is among them.
	records int
	begins  bool
	writing bool
	held    held
}

func (s *snapshots) reset() { s.kept, s.held = keptSnapshots{}, held{} }

// keptSnapshots is the state's own record of its snapshots.
type keptSnapshots struct {
	Latest, Before keptSnapshot // without an ID if there is none
}

type keptSnapshot struct {
	ID    string
	First int64 // offset of its first chunk
	Next  int64 // journal offset up to which it is folded
	Fact  int64 // offset of its last folded record, which a start reads again
	Bytes int64
}

var (
	snapshotsKey = []byte{store.KeySpaceOwn, 's'}
	// grownKey stores the journal's growth in bytes since the latest snapshot.
	grownKey = []byte{store.KeySpaceOwn, 'g'}
	// heldKey is in a converted state, and in its snapshots, during holdConverted. Its value is the
	// time since which a task has worked with the state, 8 bytes, or 0.
	heldKey = []byte{store.KeySpaceOwn, 'h'}
)

// holdConverted is how long a converted state frees nothing, so that the previous release still
// finds its snapshots and the journal after them: during a rolling upgrade it may still own
// partitions, and the upgrade may be rolled back.
const holdConverted = 24 * time.Hour

type held struct {
	is    bool
	since int64 // on the wall clock; 0 if no task has
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

func (h *held) advance(b *store.Batch, nowMillis int64) error {
	switch {
	case !h.is:
	case h.since == 0 || nowMillis < h.since: // a clock that was ahead must not extend it
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
		return fmt.Errorf("streams: reading the positions of the latest snapshots: %w", err)
	}
	return nil
}

func (k *keptSnapshots) save(b *store.Batch) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("streams: storing the positions of the latest snapshots: %w", err)
	}
	return b.Set(snapshotsKey, value)
}

// NeededFrom returns where a restore starts reading from the older of two complete snapshots,
// because the newer one may be damaged. With fewer than two, and during holdConverted, it needs
// everything.
func (c *Core[E, C]) NeededFrom() NeededFrom {
	if c.snapshots.held.is {
		return NeededFrom{}
	}
	older := c.snapshots.kept.Before
	return NeededFrom{Journal: max(0, older.Fact), Snapshots: older.First}
}

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
	// The id is unique: the start record differs by owner, and the checksum by journal.
	id := fmt.Sprintf("%d.%d.%08x", next, c.restore.to, c.progress.mark.sum)
	s.place = keptSnapshot{ID: id, Next: next, Fact: c.progress.firstUnproved()}
	s.grown = c.progress.grown
	s.writer, err = newSnapshotWriter(c.store, c.cfg.Snapshots,
		manifest{ID: id, Identity: c.cfg.Snapshots.identity(), Next: next})
	return err
}

const (
	// snapshotPace is how many bytes of state are written per byte that a turn adds to the journal.
	snapshotPace      = 4
	mostChunksOfATurn = 16
)

// writeSnapshot adds snapshot records to the turn: at least one, and enough to complete the
// snapshot by the time the journal has grown by a quarter of the state. Until then, the journal is
// kept from the start of the snapshot before the latest.
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

// wroteSnapshot notes the commit of the turn's snapshot records. end is the offset after them.
func (s *snapshots) wroteSnapshot(end int64) {
	s.writing = false
	if s.writer != nil && end > 0 && s.begins && s.writer.manifest.Chunks > 0 {
		s.place.First = end - int64(s.records)
	}
	s.begins = false
}

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
