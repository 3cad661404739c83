package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// refoldGiveUp is how long a refold may go without a block before it fails, because a user is
// waiting.
const refoldGiveUp = time.Minute

// refoldFetchBytes is the size of a fetch. Fetched data is copied several times: with 8 MiB, which
// exceeds the processor's caches, a rebuild took a fifth longer.
const refoldFetchBytes = 1 << 20

// dropMax limits the time to drop tables, which is long for large tables.
const dropMax = 2 * time.Minute

// RefoldConfig configures folding tables from the start of the topics.
type RefoldConfig struct {
	DB      *DB
	Cluster kafka.Cluster
	Logger  *slog.Logger
	Now     func() time.Time
	Tables  []string // empty means all tables
	// Report, if set, is called with the progress at the start and after each block.
	Report func(RefoldProgress)
}

// RefoldProgress is the progress of a refold.
type RefoldProgress struct {
	Done  int64 // folded records, including those of an earlier attempt
	Total int64
}

// complete chooses one server for the whole refold, and sorts the tables.
func (cfg RefoldConfig) complete(ctx context.Context) (_ RefoldConfig, err error) {
	if len(cfg.Tables) == 0 {
		cfg.Tables = Tables()
	}
	for _, t := range cfg.Tables {
		if topicOf(t) == "" {
			return cfg, fmt.Errorf("projections: there is no table %q; there are %s", t,
				strings.Join(Tables(), ", "))
		}
	}
	cfg.Tables = sortTables(cfg.Tables)
	cfg.DB, err = cfg.DB.pin(ctx)
	return cfg, err
}

// refold fills tables next to the live ones.
type refold struct {
	RefoldConfig
	suffix  string // of the table names
	ends    *kafka.Ends
	extents map[string]extent
	layout  layout
	turn    *turn
	partial []string // tables with rows whose facts the topics may lack

	mu   sync.Mutex
	next map[topicPartition]int64
	dead map[string]int // number of records set aside, by topic
}

// newRefold waits until no other refold of the database runs, and reads the extents of the topics.
// Call close to release its resources.
func newRefold(ctx context.Context, cfg RefoldConfig, suffix string) (*refold, error) {
	turn, err := cfg.awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	ends, err := cfg.Cluster.NewEnds()
	if err != nil {
		turn.end()
		return nil, err
	}
	f := &refold{
		RefoldConfig: cfg,
		suffix:       suffix,
		ends:         ends,
		turn:         turn,
		extents:      make(map[string]extent),
		dead:         make(map[string]int),
	}
	if err := f.holdExtents(ctx); err != nil {
		ends.Close()
		turn.end()
		return nil, err
	}
	return f, nil
}

// holdExtents reads the extents of the topics, and holds their records. Otherwise, records that the
// live tables contain may be deleted.
func (f *refold) holdExtents(ctx context.Context) error {
	if err := f.readExtents(ctx); err != nil {
		return err
	}
	from := make(kafka.Offsets)
	for topic, e := range f.extents {
		from[topic] = e.starts
	}
	if err := f.Cluster.Hold(ctx, f.holder(), from); err != nil {
		return err
	}
	return f.readExtents(ctx) // records may have been deleted before the hold
}

// HoldersPrefix is the prefix of the groups with which rebuilds and verifications hold records.
const HoldersPrefix = "history-"

func (f *refold) holder() string { return HoldersPrefix + f.DB.Name() + f.suffix }

func (f *refold) readExtents(ctx context.Context) error {
	for _, topic := range topicsOf(f.Tables) {
		e, err := extentOf(ctx, f.ends, topic)
		if err != nil {
			return err
		}
		f.extents[topic] = e
	}
	return nil
}

const releaseMax = 10 * time.Second

func (f *refold) close() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseMax)
	defer cancel()
	if err := f.Cluster.Release(ctx, f.holder()); err != nil {
		f.Logger.Warn("the topics' records are held until the cluster forgets the group", "error", err)
	}
	f.ends.Close()
	f.turn.end()
}

// lateTables returns the tables whose topic no longer begins at offset 0.
func (f *refold) lateTables() (names []string) {
	for _, name := range f.Tables {
		for _, start := range f.extents[topicOf(name)].starts {
			if start > 0 {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// makeTables creates the tables to fill, or finds those of an interrupted refold.
func (f *refold) makeTables(ctx context.Context) error {
	for _, name := range f.Tables {
		for _, m := range schemas.ClickHouseMigrations() {
			for _, statement := range m.Statements {
				if made, ours := forTable(statement, name, name+f.suffix); ours {
					if err := f.DB.exec(ctx, made, nil); err != nil {
						return fmt.Errorf("projections: making %s: %w", name+f.suffix, err)
					}
				}
			}
		}
	}
	generations, err := f.DB.generations(ctx)
	if err != nil {
		return err
	}
	if err := f.DB.holdMerges(ctx, f.Tables, f.suffix); err != nil {
		return err
	}
	f.layout = make(layout)
	for _, name := range f.Tables {
		f.layout[name] = filled{name: name + f.suffix, generation: generations[name+f.suffix]}
	}
	return f.readProgress(ctx)
}

const (
	holdMerges = "ALTER TABLE {database:Identifier}.{table:Identifier} " +
		"MODIFY SETTING min_parts_to_merge_at_once = 50"
	releaseMerges = "ALTER TABLE {database:Identifier}.{table:Identifier} " +
		"RESET SETTING min_parts_to_merge_at_once"
)

// holdMerges only allows merges of many parts at once while tables are filled. Otherwise, each row
// would be merged repeatedly, which takes longer than writing it. releaseMerges undoes it.
func (db *DB) holdMerges(ctx context.Context, tables []string, suffix string) error {
	for _, name := range tables {
		err := db.exec(ctx, holdMerges, Parameters{"table": name + suffix})
		if err != nil {
			return fmt.Errorf("projections: holding the merges of %s: %w", name+suffix, err)
		}
	}
	return nil
}

func (db *DB) releaseMerges(ctx context.Context, table string) error {
	if err := db.exec(ctx, releaseMerges, Parameters{"table": table}); err != nil {
		return fmt.Errorf("projections: releasing the merges of %s: %w", table, err)
	}
	return nil
}

var tableStatement = regexp.MustCompile(
	`^((?:CREATE TABLE IF NOT EXISTS|ALTER TABLE) \{database:Identifier\}\.)(\w+)\b`)

// forTable rewrites a statement that creates or changes a table for a table with another name.
func forTable(statement, table, other string) (changed string, ours bool) {
	m := tableStatement.FindStringSubmatch(statement)
	if m == nil || m[2] != table {
		return "", false
	}
	return m[1] + other + statement[len(m[0]):], true
}

func (f *refold) readProgress(ctx context.Context) error {
	recorded, err := f.DB.progress(ctx, f.layout)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = make(map[topicPartition]int64)
	for topic, e := range f.extents {
		for partition, start := range e.starts {
			at := topicPartition{topic, partition}
			f.next[at] = max(start, recorded[at])
		}
	}
	return nil
}

func (f *refold) endsNow(ctx context.Context) (map[topicPartition]int64, error) {
	return endsOf(ctx, f.ends, topicsOf(f.Tables))
}

// remaining returns the number of records before the target.
func (f *refold) remaining(target map[topicPartition]int64) (records int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, end := range target {
		records += max(0, end-f.next[at])
	}
	return records
}

// fill folds until the target is reached. It retries transient errors.
func (f *refold) fill(ctx context.Context, target map[topicPartition]int64) error {
	f.report(target, f.remaining(target))
	wrote := f.Now()
	waits := f.waits()
	for f.remaining(target) > 0 {
		blocks, err := f.session(ctx, target)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if blocks > 0 {
			wrote = f.Now()
			waits.Reset()
		}
		if err == nil {
			continue
		}
		if retry.IsPermanent(err) || errors.As(err, new(errTablesMissing)) ||
			f.Now().Sub(wrote) > refoldGiveUp {
			return err
		}
		if err := waits.Wait(ctx, err); err != nil {
			return err
		}
		if err := f.readProgress(ctx); err != nil {
			f.Logger.Warn("asking how far the tables are", "error", err)
		}
	}
	return nil
}

func (f *refold) waits() *retry.Backoff {
	return retry.Policy{
		First:     firstWait,
		Last:      lastWait,
		OnFailure: retry.Warn(f.Logger, "refolding the topics is waiting to continue"),
	}.Backoff()
}

// A refold runs several sessions in parallel, each with a share of the partitions: while ClickHouse
// processes the rows of one, the other decodes. Their blocks are larger than the projector's, so
// that there is less to merge.
const (
	refoldSessions   = 2
	refoldBlockRows  = 100_000
	refoldBlockBytes = 32 << 20
	refoldBlockWait  = 5 * time.Second // a block that reaches the target doesn't wait
)

// session folds until the target is reached or an error occurs.
func (f *refold) session(
	ctx context.Context, target map[topicPartition]int64,
) (blocks int, err error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	shares := make([]map[topicPartition]int64, refoldSessions)
	f.mu.Lock()
	for at, next := range f.next {
		n := int(at.partition) % refoldSessions
		if shares[n] == nil {
			shares[n] = make(map[topicPartition]int64)
		}
		shares[n][at] = next
	}
	f.mu.Unlock()
	onWritten := func(b *block) {
		f.mu.Lock()
		blocks++
		maps.Copy(f.next, b.next)
		for _, d := range b.dead {
			f.dead[d.Topic]++
			f.Logger.Warn("a record does not count and is left out", "topic", d.Topic, "partition",
				d.Partition, "offset", d.Offset, "reason", d.Reason)
		}
		f.mu.Unlock()
		left := f.remaining(target)
		f.report(target, left)
		if left == 0 {
			enough()
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, share := range shares {
		if share != nil {
			group.Go(func() error { return f.fold(ctx, share, target, onWritten) })
		}
	}
	err = group.Wait()
	return blocks, err
}

func (f *refold) fold(
	ctx context.Context, from, target map[topicPartition]int64, onWritten func(*block),
) error {
	reader, err := f.Cluster.NewReader(kafka.ReaderConfig{
		From:     offsetsOf(from),
		MaxBytes: refoldFetchBytes,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	return newSession(sessionConfig{
		db:        f.DB,
		reader:    reader,
		layout:    f.layout,
		now:       f.Now,
		position:  from,
		target:    target,
		onWritten: onWritten,
		asking:    new(asking),
		limits: limits{
			rows:      refoldBlockRows,
			sizeBytes: refoldBlockBytes,
			wait:      refoldBlockWait,
			unasked:   refoldBlockWait,
		},
	}).run(ctx)
}

func (f *refold) report(target map[topicPartition]int64, left int64) {
	if f.Report == nil {
		return
	}
	var total int64
	for at, end := range target {
		total += end - f.extents[at.topic].starts[at.partition]
	}
	f.Report(RefoldProgress{Done: total - left, Total: total})
}

const dropTable = "DROP TABLE IF EXISTS {database:Identifier}.{table:Identifier} " +
	"SETTINGS max_table_size_to_drop = 0"

// drop drops tables by name, stopping at the first error. A table that does not exist is not an
// error. ClickHouse deletes the rows when the last query that reads them ends. SYNC would wait for
// that, so a query of several minutes would make a rebuild fail.
func (db *DB) drop(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, dropMax)
	defer cancel()
	for _, name := range names {
		if err := db.execWithin(ctx, dropMax, dropTable, Parameters{"table": name}); err != nil {
			return fmt.Errorf("projections: dropping %s: %w", name, err)
		}
	}
	return nil
}

func sortTables(names []string) []string {
	order := Tables()
	names = slices.Clone(names)
	slices.SortFunc(names,
		func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return slices.Compact(names)
}
