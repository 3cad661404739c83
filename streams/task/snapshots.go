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

// SnapshotConfig is where a core keeps snapshots of its state.
type SnapshotConfig struct {
	Topic string // none are kept if it is empty
	// Identity names what the state is and its format. A snapshot with another identity is
	// not loaded, unless it is one of Earlier. It does not name the journal: that the journal
	// confirms, by the last record that the snapshot has folded.
	Identity string
	// Earlier are the formats of states that are loaded as well.
	Earlier []EarlierFormat
	// Advise says what to do about snapshots of an identity that is not loaded, when nothing
	// else completes the journal; nil or empty: nothing is known about it.
	Advise func(identity string) string
	// Every is by how many offsets the journal grows between two snapshots; 0: by 65,536, and
	// by twice as many bytes as the latest snapshot has. The simulation sets it.
	Every int64
	// ChunkBytes is after how many bytes of keys and values a chunk ends; 0: 384 KiB. The
	// simulation sets it: its states are small.
	ChunkBytes int
	// Rest is kept over the tasks of a partition; nil: each task tries anew.
	Rest *SnapshotRest
}

// EarlierFormat is one in which snapshots may lie in the topic, since before an upgrade.
type EarlierFormat struct {
	Identity string
	Convert  Conversion
}

// Conversion makes a state of an earlier format one of today.
type Conversion struct {
	// Entry writes an entry as the entries that it is today: any number of them. It is a function
	// of the entry alone, and keeps neither key nor value. It sees all entries of a state, those
	// of the timer index and the store's own too (store.go), and passes on as they are those that
	// mean what they meant. nil: all of them do.
	Entry func(key, value []byte, put func(key, value []byte) error) error
	// Whole does what an entry alone does not tell, once all are in the store. nil: nothing.
	Whole func(*store.Store) error
}

const (
	// defaultSnapshotEvery is folded in about a second.
	defaultSnapshotEvery = 65_536
	// snapshotGrowth is how many bytes the journal grows for each byte of the latest snapshot
	// before the next one begins.
	snapshotGrowth = 2
)

// identity includes the format of what the store keeps of its own.
func (c SnapshotConfig) identity() string { return store.IdentityOf(c.Identity) }

// reads reports whether snapshots of an identity are loaded, and how their entries are
// converted: not at all if convert is nil.
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

// advise is what Advise says.
func (c SnapshotConfig) advise(identity string) string {
	_, identity, _ = strings.Cut(identity, ": ")
	if identity == "" || c.Advise == nil {
		return ""
	}
	return c.Advise(identity)
}

// NeededFrom is what a restore may still read: the offsets of the first records, in the
// journal and in the topic of snapshots. All before may be deleted.
type NeededFrom struct{ Journal, Snapshots int64 }

// snapshots is how a core writes snapshots of its state, one at a time: in each turn the
// next records of it. It begins one when the journal has grown by twice as many bytes as the
// state had at the latest.
type snapshots struct {
	kept   keptSnapshots
	writer *snapshotWriter // nil unless one is being written
	place  keptSnapshot    // of the one that is being written
	grown  int64           // of the journal, when it began
	ending bool            // the turn writes its manifest
	// Of the turn that writes records of one: how many, and whether the first is among them.
	records int
	begins  bool
	// writing says that the turn writes a record of it.
	writing bool
	held    held
}

// reset is of an empty state, which no snapshot is of.
func (s *snapshots) reset() { s.kept, s.held = keptSnapshots{}, held{} }

// keptSnapshots is what a state knows of the snapshots of it.
type keptSnapshots struct {
	Latest, Before keptSnapshot // without an ID: there is none
}

// keptSnapshot is a whole snapshot.
type keptSnapshot struct {
	ID    string
	First int64 // offset of its first chunk
	Next  int64 // offset up to which the journal is folded
	Fact  int64 // offset of the last record folded, which a start reads again
	Bytes int64 // of keys and values
}

var (
	snapshotsKey = []byte{store.KeySpaceOwn, 's'}
	// grownKey holds by how many bytes the journal has grown since the latest snapshot.
	grownKey = []byte{store.KeySpaceOwn, 'g'}
	// heldKey is in a state that was converted, and in its snapshots, for as long as nothing is
	// deleted for that: since when a task has worked with it, 8 bytes; 0: none has yet.
	heldKey = []byte{store.KeySpaceOwn, 'h'}
)

// holdConverted is for how long a state that was converted frees nothing: the program of
// before finds its snapshots, and the journal from there. It may still have partitions while
// processes are replaced one by one, and be gone back to.
const holdConverted = 24 * time.Hour

// held is whether a state was converted, and since when a task has worked with it.
type held struct {
	is    bool
	since int64 // by the wall clock; 0: none has
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

// advance begins the time for which a converted state frees nothing, or ends it.
func (h *held) advance(b *store.Batch, nowMillis int64) error {
	switch {
	case !h.is:
	case h.since == 0 || nowMillis < h.since: // else a clock that was ahead would make it longer
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

// NeededFrom returns what a restore by the older of two whole snapshots reads: the newer one
// may turn out to be damaged. Without two of them, all is needed, and for some time after
// the state was converted.
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

// beginSnapshot takes a view of the state if a snapshot is due. The turns that follow write
// it.
func (c *Core[E, C]) beginSnapshot(now kafka.Moment) (err error) {
	s := &c.snapshots
	if s.writer != nil || !c.snapshotDue(now) {
		return nil
	}
	next := c.progress.next
	// No two are alike: the start record is another owner's, the sum another journal's.
	id := fmt.Sprintf("%d.%d.%08x", next, c.restore.to, c.progress.mark.sum)
	s.place = keptSnapshot{ID: id, Next: next, Fact: c.progress.firstUnproved()}
	s.grown = c.progress.grown
	s.writer, err = newSnapshotWriter(c.store, c.cfg.Snapshots,
		manifest{ID: id, Identity: c.cfg.Snapshots.identity(), Next: next})
	return err
}

const (
	// snapshotPace is how many bytes of the state are written for each byte that a turn adds to
	// the journal.
	snapshotPace = 4
	// mostChunksOfATurn bounds how many chunks a turn writes.
	mostChunksOfATurn = 16
)

// writeSnapshot adds the next records of the snapshot to the turn, at least one: so many that
// it is whole when the journal has grown by a quarter of the state, however large the turns
// are. Until then the journal stays from where the snapshot before the latest one begins.
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

// failedSnapshot has snapshots rest if what failed is a turn that writes a record of one.
func (c *Core[E, C]) failedSnapshot(why error, now kafka.Moment) {
	if !c.snapshots.writing {
		return
	}
	c.snapshots.writing = false
	rest := c.cfg.Snapshots.Rest
	c.cfg.Logger.Warn("a turn with a part of a snapshot failed; the partition goes on without "+
		"snapshots for a while", "partition", c.cfg.Partition, "topic", c.cfg.Snapshots.Topic,
		"rest", rest.failed(now.WallMillis), "failures", rest.Failures(), "error", why)
}

// wroteSnapshot takes note of committed records of the snapshot: end is the offset after them.
func (s *snapshots) wroteSnapshot(end int64) {
	s.writing = false
	if s.writer != nil && end > 0 && s.begins && s.writer.manifest.Chunks > 0 {
		s.place.First = end - int64(s.records)
	}
	s.begins = false
}

// noteSnapshot writes into the turn's state that the snapshot is whole, if it is.
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

// dropSnapshot ends the writing of a snapshot.
func (c *Core[E, C]) dropSnapshot() error {
	s := &c.snapshots
	if s.writer == nil {
		return nil
	}
	writer := s.writer
	s.writer = nil
	return writer.close()
}

// loadGrown reads by how much the journal has grown since the latest snapshot.
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
