package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Store keeps a task's state in Pebble. It is a cache of a topic: it stores the identity of the
// cached data, and is emptied when that changes. Writes are not synced, because a lost tail is
// folded again. After a crash it contains the state after one of the batches.
//
// Keys, by their first byte:
//
//	0x00  the store's own: identity, checkpoints and their epochs, bookmark, positions of the
//	      latest snapshots, and the time of a conversion
//	0x01, 0x02  the timer index (timers.go)
//	0x10… the owner's
type Store struct {
	db       *pebble.DB
	identity string
	flusher  *flusher // nil if there is a log
}

// storeFormat is the format of the store's own entries. Increment it if existing stores must not be
// used, whatever they cache. This makes existing snapshots unreadable unless an EarlierFormat names
// them.
const storeFormat = 1

// FirstKey is the lowest first byte of the owner's keys.
const FirstKey = 0x10

const (
	// KeySpaceOwn is for the entries of the store and of the owner's runtime.
	KeySpaceOwn    = 0x00
	keySpaceTimers = 0x01
	keySpaceDue    = 0x02
)

var identityKey = []byte{KeySpaceOwn, 'i'}

// IdentityOf returns the identity of a state, including the format of the store's own entries.
func IdentityOf(identity string) string {
	return fmt.Sprintf("store %d: %s", storeFormat, identity)
}

// IsIdentity reports whether a key is the key of a store's identity, which is not state.
func IsIdentity(key []byte) bool { return bytes.Equal(key, identityKey) }

const denseBlockBytes = 16 << 10

// Config configures a store.
type Config struct {
	Dir string
	// Identity identifies the cached data and its format. A store with another identity is emptied.
	Identity string
	FS       vfs.FS // nil for the disk
	// CacheBytes bounds the block cache, and MemTableBytes each write buffer.
	CacheBytes    int64
	MemTableBytes uint64
	// Dense compresses old data with zstd, for large stores that are rarely read.
	Dense bool
	// Unlogged disables the write-ahead log. A crash loses at most two write buffers of MemTableBytes,
	// and nothing older than FlushEvery. Otherwise, the batch that fills a buffer waits until the
	// buffer's log is on disk.
	Unlogged   bool
	FlushEvery time.Duration // default: one minute
	Logger     *slog.Logger
}

// Open opens a store. It is empty if it is new or had another identity.
func Open(cfg Config) (*Store, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	db, err := openPebble(cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, identity: IdentityOf(cfg.Identity)}
	if cfg.Unlogged {
		s.flusher = &flusher{db: db, every: cmp.Or(cfg.FlushEvery, defaultFlushEvery)}
	}
	identity, err := s.Get(identityKey)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if string(identity) == s.identity {
		return s, nil
	}
	if identity != nil {
		cfg.Logger.Warn("the state is of other topics, in another format or not trustworthy; "+
			"rebuilding it", "dir", cfg.Dir)
	}
	if err := s.empty(s.identity); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func openPebble(cfg Config) (*pebble.DB, error) {
	// Pebble takes its write buffers from the cache: the active one, and one that is being flushed.
	// Without room for them no block stays cached, and every read goes to disk.
	const buffers = 2
	size := cfg.CacheBytes + buffers*int64(cfg.MemTableBytes) // #nosec G115 -- some MB
	cache := pebble.NewCache(size)
	defer cache.Unref()
	if err := cfg.FS.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("streams: creating the state folder %s: %w", cfg.Dir, err)
	}
	opts := &pebble.Options{
		FS:                 cfg.FS,
		Cache:              cache,
		MemTableSize:       cfg.MemTableBytes,
		DisableWAL:         cfg.Unlogged,
		Logger:             pebbleLog{cfg.Logger},
		FormatMajorVersion: pebble.FormatNewest,
	}
	if cfg.Unlogged {
		opts.EventListener = (&flushes{log: opts.Logger}).listener()
	}
	// Pebble's own scheduler also polls every 100 ms whether more compactions may run, which wakes an
	// idle process ten times a second per store. Here at most one may run
	// (CompactionConcurrencyRange), so the next one starts when it is done.
	opts.Experimental.CompactionScheduler =
		pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if cfg.Dense {
		opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
			return pebble.DBCompressionGood
		})
		opts.Levels[len(opts.Levels)-1].BlockSize = denseBlockBytes
		// Only the last level is compressed well. There is no level before it until the first one has
		// this many bytes.
		opts.LBaseMaxBytes = 256 << 20
	}
	db, err := pebble.Open(cfg.Dir, opts)
	if err != nil {
		return nil, fmt.Errorf("streams: opening the state in %s (it is a cache: delete the folder if "+
			"it is damaged): %w", cfg.Dir, err)
	}
	return db, nil
}

func (s *Store) empty(identity string) error {
	b := s.db.NewBatch()
	if err := errors.Join(
		b.DeleteRange([]byte{0}, []byte{0xff, 0xff, 0xff, 0xff}, nil),
		b.Set(identityKey, []byte(identity), nil),
	); err != nil {
		return fmt.Errorf("streams: emptying the state: %w", err)
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("streams: emptying the state: %w", err)
	}
	return nil
}

// Reset empties the store.
func (s *Store) Reset() error { return s.empty(s.identity) }

// BeginLoading empties the store. Until EndLoading is called, Open empties it again.
func (s *Store) BeginLoading() error { return s.empty("a part of a snapshot") }

// EndLoading makes the loaded entries the state. It flushes a store without a log: otherwise most
// of it could be on disk after a crash, but would be loaded again.
func (s *Store) EndLoading() error {
	err := s.db.Set(identityKey, []byte(s.identity), pebble.NoSync)
	if err = errors.Join(err, s.flushUnlogged()); err != nil {
		return fmt.Errorf("streams: completing the loading of a snapshot: %w", err)
	}
	return nil
}

// Load writes entries, which cannot be read before Load returns.
func (s *Store) Load(fill func(set func(key, value []byte) error) error) error {
	b := s.db.NewBatch()
	err := fill(func(key, value []byte) error { return b.Set(key, value, nil) })
	if err != nil {
		return errors.Join(err, b.Close())
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("streams: loading state: %w", err)
	}
	return b.Close()
}

// View is a snapshot of a store.
type View struct{ snapshot *pebble.Snapshot }

// View returns a view of the committed state, which later changes do not affect. It must be closed.
func (s *Store) View() View { return View{s.db.NewSnapshot()} }

// Scan calls take for keys from lower up to upper, in order, until it returns false.
func (v View) Scan(lower, upper []byte, take func(key, value []byte) (bool, error)) error {
	return scan(v.snapshot, lower, upper, take)
}

// Close releases the view.
func (v View) Close() error { return v.snapshot.Close() }

// Distrust marks the store as wrong, so that the next Open empties it.
func (s *Store) Distrust() error {
	sync := &pebble.WriteOptions{Sync: s.flusher == nil}
	err := s.db.Set(identityKey, []byte("distrusted"), sync)
	if err = errors.Join(err, s.flushUnlogged()); err != nil {
		return fmt.Errorf("streams: marking the state as not trustworthy: %w", err)
	}
	return nil
}

// Close closes the store, and flushes it first if it has no log.
func (s *Store) Close() error {
	var err error
	if s.flusher != nil {
		err = s.flusher.close()
	}
	if err = errors.Join(err, s.db.Close()); err != nil {
		return fmt.Errorf("streams: closing the state: %w", err)
	}
	return nil
}

func (s *Store) flushUnlogged() error {
	if s.flusher == nil {
		return nil
	}
	return s.db.Flush()
}

// BeginFlush starts flushing a store without a log.
func (s *Store) BeginFlush() error {
	if s.flusher == nil {
		return nil
	}
	if err := s.flusher.begin(); err != nil {
		return fmt.Errorf("streams: flushing the state to disk: %w", err)
	}
	return nil
}

// Get returns a committed value, or nil if the key does not exist. It is safe for concurrent use.
func (s *Store) Get(key []byte) ([]byte, error) { return read(s.db, key) }

// forget deletes a key. If the process crashes, the deletion may be lost.
func (s *Store) forget(key []byte) { _ = s.db.Delete(key, pebble.NoSync) }

// Scan calls take for committed keys from lower up to upper, in order, until it returns false. Key
// and value are valid only during the call. It is safe for concurrent use.
func (s *Store) Scan(
	lower, upper []byte, take func(key, value []byte) (more bool, err error),
) error {
	return scan(s.db, lower, upper, take)
}

// Each calls take for every committed key except the store's own, in order, until it returns false.
func (s *Store) Each(take func(key, value []byte) (more bool, err error)) error {
	return s.Scan([]byte{KeySpaceOwn + 1}, []byte{0xff, 0xff, 0xff, 0xff}, take)
}

// Begin opens a batch.
func (s *Store) Begin() *Batch { return &Batch{changes: s.db.NewIndexedBatch(), store: s} }

// Batch is a batch of changes to a store that reads its own writes. It must be used by one
// goroutine and ends with Commit or Discard.
type Batch struct {
	changes *pebble.Batch
	store   *Store
	timer   []timerChange
}

// Get returns a value, or nil if the key does not exist.
func (b *Batch) Get(key []byte) ([]byte, error) { return read(b.changes, key) }

// Set writes the concatenation of these values.
func (b *Batch) Set(key []byte, value ...[]byte) error {
	if err := b.changes.Set(key, slices.Concat(value...), nil); err != nil {
		return fmt.Errorf("streams: writing state: %w", err)
	}
	return nil
}

// Delete removes a value.
func (b *Batch) Delete(key []byte) error {
	if err := b.changes.Delete(key, nil); err != nil {
		return fmt.Errorf("streams: deleting state: %w", err)
	}
	return nil
}

// Scan calls take for keys from lower up to upper, in order, until it returns false.
func (b *Batch) Scan(
	lower, upper []byte, take func(key, value []byte) (more bool, err error),
) error {
	return scan(b.changes, lower, upper, take)
}

// SetCheckpoint stores the offset up to which a partition is folded into the state.
func (b *Batch) SetCheckpoint(topic string, partition int32, next int64) error {
	return b.Set(checkpointKey(topic, partition), binary.BigEndian.AppendUint64(nil, uint64(next)))
}

// Checkpoint returns the offset up to which a partition is folded into the state.
func (s *Store) Checkpoint(topic string, partition int32) (next int64, err error) {
	value, err := s.Get(checkpointKey(topic, partition))
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

// SetEpoch stores the epoch of the leader that wrote the record before the checkpoint, if known.
func (b *Batch) SetEpoch(topic string, partition, epoch int32) error {
	if epoch < 0 {
		return nil
	}
	return b.Set(epochKey(topic, partition), binary.BigEndian.AppendUint32(nil, uint32(epoch)))
}

// Epoch returns the epoch that SetEpoch stored, or a negative number.
func (s *Store) Epoch(topic string, partition int32) (int32, error) {
	value, err := s.Get(epochKey(topic, partition))
	if err != nil || len(value) != 4 {
		return -1, err
	}
	return int32(binary.BigEndian.Uint32(value)), nil // #nosec G115 -- it was an int32
}

func checkpointKey(topic string, partition int32) []byte { return ownKey('c', topic, partition) }

func epochKey(topic string, partition int32) []byte { return ownKey('e', topic, partition) }

func ownKey(kind byte, topic string, partition int32) []byte {
	key := append([]byte{KeySpaceOwn, kind}, topic...)
	return binary.BigEndian.AppendUint32(append(key, 0), uint32(partition))
}

// Commit writes the batch atomically, without waiting for the disk.
func (b *Batch) Commit() error {
	if b.changes.Empty() {
		return b.changes.Close()
	}
	if err := b.changes.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("streams: committing state: %w", err)
	}
	if f := b.store.flusher; f != nil {
		f.wrote()
	}
	return b.changes.Close()
}

// Discard drops the batch.
func (b *Batch) Discard() { _ = b.changes.Close() }

func read(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("streams: reading state: %w", err)
	}
	value = bytes.Clone(value)
	if value == nil {
		value = []byte{}
	}
	return value, closer.Close()
}

// scan replaces an empty lower bound by nil, because Pebble's own checks accept only nil.
func scan(r pebble.Reader, lower, upper []byte, take func(key, value []byte) (bool, error)) error {
	if len(lower) == 0 {
		lower = nil
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("streams: reading state: %w", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		more, err := take(it.Key(), it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("streams: reading state: %w", err)
	}
	return nil
}

type pebbleLog struct{ logger *slog.Logger }

func (pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.logger.Error("Pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.logger.Error("Pebble cannot continue: " + fmt.Sprintf(format, args...))
	os.Exit(1)
}
