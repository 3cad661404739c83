// Package broker runs the Kafka-protocol broker that is embedded in `lumenhook run`: franz-go's
// kfake with a data folder.
//
// Acknowledged data survives a crash of the process, because writes go through the page cache, as
// Kafka's do by default. With Config.Sync it also survives a crash of the machine: responses wait
// until the data is synced, and share the syncs (disk.go). If a kill or a power cut interrupts a
// commit, the next start completes or undoes it in all partitions (recover.go).
//
// With a user and a password, a client that has not logged in can only send ApiVersions requests.
// Once logged in, it may do everything.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures a Broker.
type Config struct {
	Dir    string
	Listen string // host:port; port 0 picks a free one
	Sync   bool   // acknowledged data is on disk
	// CompactEvery is how often topics are compacted and their retention is applied. The default is
	// every hour.
	CompactEvery time.Duration
	// User and Password are the SCRAM-SHA-256 credentials that every client needs. If they are empty,
	// clients don't log in.
	User, Password string
	// Failed is called once, when the broker cannot write its data. The caller must stop the process,
	// because acknowledged writes may be lost with it.
	Failed func(error)
	Logger *slog.Logger
	// AddToSnapshot, if set, adds files to a snapshot's folder (snapshot.go).
	AddToSnapshot func(dir string) error
	// HoldFile is the file that names requests to hold (holds.go). It is for tests.
	HoldFile string

	// For tests.
	syncPath func(path string) error // default: syncPath
	settings map[string]string       // extra kfake settings
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	door    *door
	disk    *disk // nil if responses don't wait for the disk
	addr    string
	dir     string
	more    func(dir string) error // AddToSnapshot
	login   []kgo.Opt              // for our own clients
	log     *logger
	inOrder bool // the data folder was closed cleanly
	ends    ends // recorded ends of partitions; used in hooks only

	compactEvery time.Duration
	compacted    time.Time
	compacting   sync.Mutex // held during compaction
	closing      bool       // no more compactions; guarded by compacting
	mu           sync.Mutex
	topics       map[string]bool // all topics, including deleted ones; guarded by mu
}

// Start opens the data folder and listens.
func Start(cfg Config) (*Broker, error) {
	if err := os.MkdirAll(filepath.Join(cfg.Dir, offsetsFolder), 0o700); err != nil {
		return nil, fmt.Errorf("broker: creating the data folder: %w", err)
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("broker: listening on %s: %w", cfg.Listen, err)
	}
	b := &Broker{
		addr:         listener.Addr().String(),
		dir:          cfg.Dir,
		more:         cfg.AddToSnapshot,
		log:          &logger{slog: cfg.Logger, failed: cfg.Failed},
		compactEvery: cmp.Or(cfg.CompactEvery, compactEvery),
		compacted:    time.Now(),
		topics:       make(map[string]bool),
	}
	b.door = newDoor(listener, cfg, &b.log.lost)
	if err := b.open(cfg); err != nil {
		return nil, errors.Join(err, b.door.Close(), b.closeDisk())
	}
	if err := b.makeReady(context.Background(), cfg); err != nil {
		b.cluster.Close()
		return nil, errors.Join(err, b.closeDisk())
	}
	return b, nil
}

// open heals the data folder, opens the cluster on it, and accepts requests.
func (b *Broker) open(cfg Config) (err error) {
	if cfg.Sync {
		if err := b.openDisk(cfg); err != nil {
			return err
		}
	}
	if err := b.heal(); err != nil {
		return fmt.Errorf("broker: opening %s: %w", cfg.Dir, err)
	}
	if cfg.User != "" {
		if err := b.requirePassword(cfg.User, cfg.Password); err != nil {
			return err
		}
	}
	b.cluster, err = kfake.NewCluster(b.options(cfg, b.door)...)
	if err == nil {
		b.hooks()
	}
	close(b.door.open)
	if err != nil {
		return fmt.Errorf("broker: opening %s: %w", cfg.Dir, err)
	}
	if cfg.HoldFile != "" {
		b.holdRequests(cfg.HoldFile)
	}
	return nil
}

// forgetClose removes the mark of a clean close. It removes the second names of the logs first,
// because they are older than logs that another version of the broker may have written and closed.
func (b *Broker) forgetClose() error {
	if _, err := os.Stat(b.closedFile()); err != nil {
		return nil // killed, or new
	}
	b.inOrder = true
	if err := dropKept(b.dir); err != nil {
		return err
	}
	if err := b.syncNow(b.dir); err != nil {
		return err
	}
	if err := os.Remove(b.closedFile()); err != nil {
		return err
	}
	return b.syncNow(b.dir)
}

// heal repairs the data folder after a kill or a power cut. It first removes the mark of a clean
// close, because kfake is about to delete files that only a clean close writes.
func (b *Broker) heal() (err error) {
	if err := b.forgetClose(); err != nil {
		return err
	}
	none := func(string) bool { return false }
	if err := removeSnapshots(b.dir, none); err != nil {
		return err
	}
	if err := healCompaction(b.dir, b.syncNow); err != nil {
		return err
	}
	if err := healLogs(b.dir); err != nil {
		return err
	}
	found, err := scanPartitions(b.dir)
	if err != nil {
		return err
	}
	if b.ends, err = healEnds(b.dir, found, b.log.slog); err != nil {
		return err
	}
	if !b.inOrder {
		if err := endTransactions(b.dir, found); err != nil {
			return err
		}
	}
	if b.disk != nil {
		b.disk.alone(func() { b.disk.healed = true })
	}
	return nil
}

// openDisk makes responses wait for the disk. If directories cannot be watched, kfake syncs
// instead.
func (b *Broker) openDisk(cfg Config) (err error) {
	sync := cfg.syncPath
	if sync == nil {
		sync = syncPath
	}
	b.disk, err = newDisk(cfg.Dir, sync, b.log.fail)
	if errors.Is(err, errors.ErrUnsupported) {
		cfg.Logger.Warn("cannot watch the embedded broker's folder; it syncs each file separately, "+
			"which is slower", "folder", cfg.Dir, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("broker: opening %s: %w", cfg.Dir, err)
	}
	b.door.disk = b.disk
	return nil
}

func (b *Broker) closeDisk() error {
	if b.disk == nil {
		return nil
	}
	return b.disk.close()
}

func (b *Broker) options(cfg Config, door *door) []kfake.Opt {
	settings := map[string]string{
		"message.max.bytes":          strconv.Itoa(maxBatchBytes),
		"log.cleaner.backoff.ms":     kfakeCompactsMillis,
		"transaction.max.timeout.ms": strconv.FormatInt(longestTransaction.Milliseconds(), 10),
		// If kfake forgets a producer, the same id starts at epoch 0 again. This is the longest
		// expiration that kfake supports.
		"transactional.id.expiration.ms": strconv.Itoa(math.MaxInt32),
	}
	maps.Copy(settings, cfg.settings)
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ListenFn(oneListener(door)),
		kfake.DataDir(cfg.Dir),
		kfake.ClusterID("lumenhook"),
		kfake.WithLogger(b.log),
		kfake.BrokerConfigs(settings),
	}
	if cfg.User != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser(mechanism, cfg.User, cfg.Password))
	}
	if cfg.Sync && b.disk == nil {
		opts = append(opts, kfake.SyncWrites())
	}
	return opts
}

func (b *Broker) makeReady(ctx context.Context, cfg Config) error {
	if err := b.knowTopics(ctx); err != nil {
		return fmt.Errorf("broker: opening %s: %w", cfg.Dir, err)
	}
	if cfg.User != "" {
		if err := b.nameFirstHandshake(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closedFile exists between a clean close and the next start.
func (b *Broker) closedFile() string { return filepath.Join(b.dir, "closed-in-order") }

// Addr returns the broker's address as host:port.
func (b *Broker) Addr() string { return b.addr }

// Close flushes everything to disk and stops the broker.
func (b *Broker) Close() {
	b.compacting.Lock()
	b.closing = true
	b.compacting.Unlock()
	b.cluster.Close()
	if err := b.closeDisk(); err != nil || b.log.lost.Load() {
		return // leave the mark out: files that close writes may be missing too
	}
	if err := errors.Join(dropKept(b.dir), b.syncNow(b.dir)); err != nil {
		return
	}
	// Without the file, the next start only takes longer.
	if os.WriteFile(b.closedFile(), nil, 0o600) == nil {
		_ = b.syncNow(b.dir)
	}
}

// oneListener passes an open listener to the cluster's only broker. Opening it ourselves turns an
// occupied port into an error; kfake would panic.
func oneListener(l net.Listener) func(string, string) (net.Listener, error) {
	var once sync.Once
	return func(network, address string) (net.Listener, error) {
		var given net.Listener
		once.Do(func() { given = l })
		if given == nil {
			return nil, fmt.Errorf("broker: kfake requested a second listener (%s %s)", network, address)
		}
		return given, nil
	}
}

// logger inspects kfake's log. kfake only logs a warning when a write to disk fails, and still
// acknowledges the write to the client.
type logger struct {
	slog   *slog.Logger
	failed func(error)
	once   sync.Once
	lost   atomic.Bool
}

// Logf implements kfake.Logger.
func (l *logger) Logf(level kfake.LogLevel, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	unwritten := strings.HasPrefix(text, "persist ") || strings.HasPrefix(text, "rebuildSegments ")
	switch {
	case level == kfake.LogLevelError || level == kfake.LogLevelWarn && unwritten:
		l.fail(errors.New(text))
	case level == kfake.LogLevelWarn:
		l.slog.Debug("embedded broker", "text", text)
	}
}

func (l *logger) fail(err error) {
	l.lost.Store(true)
	l.slog.Error("the embedded broker lost data that it had acknowledged", "error", err)
	if l.failed != nil {
		l.once.Do(func() { l.failed(fmt.Errorf("broker: %w", err)) })
	}
}
