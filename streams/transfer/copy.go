package transfer

import (
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
)

// copyFormat numbers the format of a copy. Increment it if a program that reads the current format
// cannot read the new one.
const copyFormat = 1

// Copy is a deployment at one position: its states, and records of its topics.
type Copy struct {
	dir    string // of the records' files
	states []*store.Store
	closer io.Closer // of the states
	about  Manifest
}

// Manifest describes a copy.
type Manifest struct {
	Format  int       `json:"format"`
	MadeAt  time.Time `json:"madeAt"`
	Program string    `json:"program"` // version that made it
	Prefix  string    `json:"prefix"`  // of the topics
	// StateFormat is the format of the states' entries.
	StateFormat int   `json:"stateFormat"`
	Partitions  int32 `json:"partitions"`
	// Journal is the position of the copy: the offset up to which each partition of the journal is
	// included.
	Journal []int64 `json:"journal"`
	// JournalEnds are the offsets up to which each partition was read. From Journal on there are
	// only transaction markers.
	JournalEnds []int64 `json:"journalEnds"`
	// Cursor is the last ledger whose payments are all in the copy; nil: no ledger was read.
	Cursor  *Cursor `json:"cursor,omitempty"`
	Entries int64   `json:"entries"` // of all states
	Digest  string  `json:"digest"`  // of all states

	States  []file        `json:"states,omitempty"` // in the order of the partitions
	Records []recordsFile `json:"records"`
}

// Cursor is how far the follower had read.
type Cursor struct {
	Network        string `json:"network"` // passphrase
	Ledger         uint32 `json:"ledger"`
	Hash           string `json:"hash"`
	ClosedAtMillis int64  `json:"closedAtMillis"`
	// Coverage of the ledgers before it.
	Coverage         []CursorRange `json:"coverage,omitempty"`
	MovesSince       uint32        `json:"movesSince,omitempty"`
	MovesSinceMillis int64         `json:"movesSinceMillis,omitempty"`
}

// CursorRange is the JSON form of a domain.LedgersRead.
type CursorRange struct {
	From     uint32 `json:"from"`
	To       uint32 `json:"to"`
	Verified bool   `json:"verified"`
}

func cursorRanges(c domain.Coverage) (ranges []CursorRange) {
	for _, r := range c {
		ranges = append(ranges, CursorRange{r.From, r.To, r.Verified})
	}
	return ranges
}

func (c *Cursor) coverage() (all domain.Coverage) {
	for _, r := range c.Coverage {
		all = append(all, domain.LedgersRead{
			Range:    domain.Range{From: r.From, To: r.To},
			Verified: r.Verified,
		})
	}
	return all
}

// recordsFile is a file of records of one topic.
type recordsFile struct {
	file
	Topic string `json:"topic"`
	// Taken reports whether the states have taken these records.
	Taken bool `json:"taken"`
}

// Manifest describes the copy.
func (c *Copy) Manifest() Manifest { return c.about }

// Close closes the states.
func (c *Copy) Close() error { return c.closer.Close() }

// stores are states in a scratch folder.
type stores []*store.Store

const (
	scratchCacheBytes    = 8 << 20
	scratchMemTableBytes = 4 << 20
)

// scratchConfig configures a state in a scratch folder.
func scratchConfig(dir string, partition int32, logger *slog.Logger) store.Config {
	return store.Config{
		Dir:           filepath.Join(dir, strconv.Itoa(int(partition))),
		Identity:      "scratch",
		CacheBytes:    scratchCacheBytes,
		MemTableBytes: scratchMemTableBytes,
		Logger:        logger,
	}
}

func openStores(dir string, count int32, logger *slog.Logger) (list stores, err error) {
	for p := range count {
		s, err := store.Open(scratchConfig(dir, p, logger))
		if err != nil {
			return nil, errors.Join(err, list.Close())
		}
		list = append(list, s)
	}
	return list, nil
}

func (l stores) Close() (err error) {
	for _, s := range l {
		err = errors.Join(err, s.Close())
	}
	return err
}

// progressEvery is the number of entries or records after which progress is reported.
const progressEvery = 10_000

// batchEntries bounds a batch of changes to a store.
const batchEntries = 4096
