package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

const (
	// format is the version of the store's format. A store in another format is refilled.
	format = 10

	defaultCacheBytes    = 64 << 20
	defaultMemTableBytes = 16 << 20
	defaultConfirmEvery  = 500 * time.Millisecond

	// completeFor is how long a store may go without reaching the tables' ends before it may miss
	// tombstones: half of Kafka's delete.retention.ms.
	completeFor       = 12 * time.Hour
	noteCompleteEvery = time.Minute
)

// ErrRebuild means that the store is not filled from these tables. Reopening the directory refills
// it.
var ErrRebuild = errors.New("the directory must be rebuilt: restart this process")

// ErrEnded means that the directory is no longer being filled.
var ErrEnded = errors.New("the directory has stopped")

// Config configures a directory: its source and its store.
type Config struct {
	Cluster       kafka.Cluster
	Dir           string
	FS            vfs.FS             // nil for the disk
	CacheBytes    int64              // the store's block cache; default: 64 MiB
	MemTableBytes uint64             // each write buffer of the store; default: 16 MiB
	ConfirmEvery  time.Duration      // how often to read the tables' ends; default: 500 ms
	OnUnreadable  func(topic string) // called for each record that cannot be decoded; may be nil
	Now           func() time.Time
	Logger        *slog.Logger
}

// Directory is the read model. Its reads are safe for concurrent use until Close.
type Directory struct {
	cfg      Config
	identity string
	store    *store.Store
	ends     Ends
	close    func()
	progress *progress
	waiters  *waiters
	wallets  *walletSet

	keys      *rowCache[ownedKey] // by hash
	endpoints *rowCache[domain.Endpoint]

	fresh freshness

	stopping chan struct{}
	running  sync.Mutex // held by Run, and then by Close
	mu       sync.Mutex
	closed   bool
	ran      bool
	filled   bool          // Run has read from the tables
	ended    chan struct{} // closed once Run has returned, and replaced by the next one
}

// Ends reads the first offsets and ends of topics, by partition.
type Ends interface {
	Starts(ctx context.Context, topic string) (map[int32]int64, error)
	Of(ctx context.Context, topic string) (map[int32]int64, error)
	OfEpochs(ctx context.Context, topic string, epochs map[int32]int32) map[int32]int64
}

// Open opens the store and finds the positions at which to continue. The tables must exist.
func Open(ctx context.Context, cfg Config) (*Directory, error) {
	identity, err := identityOf(ctx, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	ends, err := cfg.Cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	d, err := OpenOn(ctx, cfg, identity, ends)
	if err != nil {
		ends.Close()
		return nil, err
	}
	d.close = ends.Close
	return d, nil
}

// OpenOn is Open for a simulation, which reads the tables, calls Take, and does not call Run.
func OpenOn(ctx context.Context, cfg Config, identity string, ends Ends) (*Directory, error) {
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = defaultCacheBytes
	}
	if cfg.MemTableBytes == 0 {
		cfg.MemTableBytes = defaultMemTableBytes
	}
	if cfg.ConfirmEvery == 0 {
		cfg.ConfirmEvery = defaultConfirmEvery
	}
	d := &Directory{
		cfg:      cfg,
		identity: identity,
		ends:     ends,
		close:    func() {},
		waiters:  newWaiters(),
		wallets:  newWalletSet(),
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),

		keys:      newRowCache[ownedKey](cachedKeys),
		endpoints: newRowCache[domain.Endpoint](cachedEndpoints),
	}
	var err error
	d.store, err = store.Open(store.Config{
		Dir:           cfg.Dir,
		Identity:      identity,
		FS:            cfg.FS,
		CacheBytes:    cfg.CacheBytes,
		MemTableBytes: cfg.MemTableBytes,
		Dense:         true,
		Logger:        cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	if err := d.begin(ctx); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	return d, nil
}

func identityOf(ctx context.Context, c kafka.Cluster) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "directory/%d", format)
	for _, t := range tables {
		id, partitions, err := c.TopicIdentity(ctx, t.topic)
		if err != nil {
			return "", fmt.Errorf("directory: %w", err)
		}
		fmt.Fprintf(&b, " %s=%s/%d", t.topic, id, partitions)
	}
	return b.String(), nil
}

func (d *Directory) begin(ctx context.Context) error {
	now := d.cfg.Now()
	whole, err := d.completeAt()
	if err != nil {
		return err
	}
	from, err := d.positions(ctx)
	rebuild := errors.Is(err, ErrRebuild)
	if err != nil && !rebuild {
		return err
	}
	if age := now.Sub(whole).Abs(); !whole.IsZero() && age > completeFor {
		d.cfg.Logger.Warn("the directory was offline too long to know all deletions; rebuilding it",
			"away", age)
		rebuild = true
	}
	if rebuild {
		if err := d.store.Reset(); err != nil {
			return err
		}
		if from, err = d.positions(ctx); err != nil {
			return err
		}
		whole = time.Time{}
	}
	if whole.IsZero() {
		whole = now
		if err := d.noteComplete(now); err != nil {
			return err
		}
	}
	if err := d.readWallets(); err != nil {
		return err
	}
	d.fresh.begin(whole)
	d.progress = newProgress(from)
	return nil
}

// positions returns where each partition continues: at its checkpoint, or at its first record if
// compaction has removed that. A checkpoint after the end means that the table lost records.
func (d *Directory) positions(ctx context.Context) (kafka.Offsets, error) {
	from := make(kafka.Offsets)
	for _, t := range tables {
		starts, err := d.ends.Starts(ctx, t.topic)
		if err != nil {
			return nil, err
		}
		until, err := d.ends.Of(ctx, t.topic)
		if err != nil {
			return nil, err
		}
		epochEnds, err := d.epochEnds(ctx, t.topic, until)
		if err != nil {
			return nil, err
		}
		from[t.topic] = make(map[int32]int64)
		for p, end := range until {
			at, err := d.store.Checkpoint(t.topic, p)
			if err != nil {
				return nil, err
			}
			if ended, known := epochEnds[p]; known && ended < at {
				d.cfg.Logger.Error("a table was truncated, for example by an unclean leader election; "+
					"rebuilding the directory", "table", t.topic, "partition", p, "checkpoint", at, "cut", ended)
				return nil, fmt.Errorf("directory: partition %d of %s was truncated at %d, before the "+
					"checkpoint %d: %w", p, t.topic, ended, at, ErrRebuild)
			}
			if at > end {
				d.cfg.Logger.Warn("the directory is ahead of its table", "table", t.topic, "partition", p,
					"checkpoint", at, "end", end)
				return nil, fmt.Errorf("directory: partition %d of %s ends at %d, before the checkpoint %d: %w",
					p, t.topic, end, at, ErrRebuild)
			}
			from[t.topic][p] = max(at, starts[p])
		}
	}
	return from, nil
}

func (d *Directory) epochEnds(
	ctx context.Context, topic string, of map[int32]int64,
) (map[int32]int64, error) {
	epochs := make(map[int32]int32)
	for p := range of {
		epoch, err := d.store.Epoch(topic, p)
		if err != nil {
			return nil, err
		}
		if epoch >= 0 {
			epochs[p] = epoch
		}
	}
	return d.ends.OfEpochs(ctx, topic, epochs), nil
}

// completeAt returns when the store last reached the tables' ends, or was created.
func (d *Directory) completeAt() (time.Time, error) {
	value, err := d.store.Get(completeKey)
	if err != nil || len(value) != 8 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(value))), nil
}

func (d *Directory) noteComplete(at time.Time) error {
	batch := d.store.Begin()
	if err := batch.Set(completeKey, binary.BigEndian.AppendUint64(nil,
		uint64(at.UnixMilli()))); err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}

// Run fills the directory until ctx is done or Close is called, and then returns nil. It waits
// while the cluster is unavailable, and returns an error if waiting does not help, for example if a
// row requires a newer version. It may be called again unless the error is ErrRebuild.
func (d *Directory) Run(ctx context.Context) error {
	d.running.Lock()
	defer d.running.Unlock()
	select {
	case <-d.stopping:
		return nil
	default:
	}
	d.mu.Lock()
	if d.ran {
		d.ended = make(chan struct{})
	}
	d.ran = true
	ended := d.ended
	d.mu.Unlock()
	defer close(ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	g, both := errgroup.WithContext(ctx) // if one fails, the other is cancelled
	g.Go(func() error { return d.fill(both) })
	g.Go(func() error { return d.confirmLoop(both) })
	return g.Wait()
}

func (d *Directory) over() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// Close stops Run, waits for it and closes the store. No read may be in progress or follow.
func (d *Directory) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	close(d.stopping)
	d.running.Lock() // a run that begins later stops immediately
	defer d.running.Unlock()
	d.close()
	if err := d.store.Close(); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return nil
}

type table struct {
	topic string
	space byte // the first byte of its rows' keys
}

var (
	accounts  = table{topic: schemas.TopicAccounts, space: spaceAccounts}
	endpoints = table{topic: schemas.TopicEndpoints, space: spaceEndpoints}
	watches   = table{topic: schemas.TopicWatches, space: spaceWatches}

	keyUses = table{topic: schemas.TopicKeyUses, space: spaceKeyUses}

	tables = []table{accounts, endpoints, watches, keyUses}
)
