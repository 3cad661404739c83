package writer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	rebuildSuffix  = "_rebuild"  // tables that are being filled
	exchangeSuffix = "_exchange" // complete tables that are about to be exchanged, or have just been

	// A rebuild is near the end of the topics if at most this many records are left. It then takes a
	// last step to the live tables' position and exchanges the tables.
	nearEndRecords = 2000
	catchUpsMax    = 1000
	copyMax        = 10 * time.Minute
)

// Rebuild fills new tables from the start of the topics while the live ones are read and written.
// It then exchanges each with its live table, and drops the latter. Projectors resume at the new
// tables' position. The next rebuild of the same tables continues an interrupted one. A failed
// rebuild leaves the live tables unchanged.
func Rebuild(ctx context.Context, cfg RefoldConfig) error {
	cfg, err := cfg.complete(ctx)
	if err != nil {
		return err
	}
	if err := Migrate(ctx, cfg.DB); err != nil {
		return err
	}
	if err := cfg.DB.dropDamaged(ctx); err != nil {
		return err
	}
	f, err := newRefold(ctx, cfg, rebuildSuffix)
	if err != nil {
		return err
	}
	defer f.close()
	restarted, err := f.restartedTables(ctx)
	if err != nil {
		return err
	}
	if err := f.clearUp(ctx); err != nil {
		return err
	}
	if err := f.makeTables(ctx); err != nil {
		return err
	}
	if err := f.copyRetention(ctx); err != nil {
		return err
	}
	if err := f.copyOlder(ctx, restarted); err != nil {
		return err
	}
	// The new tables start where the topics start.
	if err := f.DB.recordProgress(ctx, f.layout, f.next); err != nil {
		return err
	}
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	return f.exchange(ctx)
}

func (f *refold) clearUp(ctx context.Context) error {
	generations, err := f.DB.generations(ctx)
	if err != nil {
		return err
	}
	var left []string // tables to drop
	half := false
	for _, name := range Tables() {
		if _, there := generations[name+exchangeSuffix]; there {
			left = append(left, name+exchangeSuffix)
		}
		_, there := generations[name+rebuildSuffix]
		half = half || there != slices.Contains(f.Tables, name)
	}
	if half {
		for _, name := range Tables() {
			left = append(left, name+rebuildSuffix)
		}
	} else {
		f.Logger.Info("going on with the rebuild that was interrupted")
	}
	return f.DB.drop(ctx, left...)
}

// restartedTables returns the tables that were continued on other topics ([Restart]). The offsets
// of their rows don't show which rows the new topics contain.
func (f *refold) restartedTables(ctx context.Context) (names []string, err error) {
	at, err := f.DB.RestartPositions(ctx)
	if err != nil || len(at) == 0 {
		return nil, err
	}
	current := currentTables()
	return slices.DeleteFunc(slices.Clone(f.Tables),
		func(name string) bool { return slices.Contains(current, name) }), nil
}

// copyOlder copies the rows of records that the topics no longer have. For deliveries and spans of
// attempts, some facts may still be there, so all rows of these tables are copied; folding the
// remaining facts again only adds to them. All rows of restarted tables are copied for the same
// reason.
func (f *refold) copyOlder(ctx context.Context, restarted []string) error {
	for _, name := range f.Tables {
		if slices.Contains(restarted, name) {
			if err := f.copyRows(ctx, name, "true", nil); err != nil {
				return err
			}
			continue
		}
		for partition, start := range f.extents[topicOf(name)].starts {
			if start == 0 {
				continue
			}
			if name == "deliveries" || name == countsTable {
				start = math.MaxInt64
			}
			err := f.copyRows(ctx, name, "partition = {partition:Int32} AND toInt64(offset) < {below:Int64}",
				Parameters{
					"partition": strconv.Itoa(int(partition)),
					"below":     strconv.FormatInt(start, 10),
				})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *refold) copyRows(ctx context.Context, name, where string, which Parameters) error {
	columns, err := f.DB.storedColumns(ctx, name)
	if err != nil {
		return err
	}
	copying, cancel := context.WithTimeout(ctx, copyMax)
	defer cancel()
	list := strings.Join(columns, ", ")
	all := Parameters{"into": name + f.suffix, "from": name}
	maps.Copy(all, which)
	err = f.DB.Server().conn.Exec(f.DB.bind(clickhouse.Context(copying, insertSettings), all),
		"INSERT INTO {database:Identifier}.{into:Identifier} ("+list+") SELECT "+list+
			" FROM {database:Identifier}.{from:Identifier} FINAL WHERE "+where)
	if err != nil {
		return fmt.Errorf("projections: copying the older rows of %s: %w", name, err)
	}
	return nil
}

const selectColumns = `
SELECT name FROM system.columns
WHERE database = {database:String} AND table = {table:String}
    AND default_kind IN ('', 'DEFAULT')
ORDER BY position`

func (db *DB) storedColumns(ctx context.Context, table string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	which := Parameters{"table": table}
	err = db.Query(ctx, selectColumns, which, func(read func(...any) error) error {
		var name string
		err := read(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		err = fmt.Errorf("projections: asking for the columns of %s: %w", table, err)
	}
	return names, err
}

// catchUp folds to the ends of the topics, repeatedly until they are near, and then to the live
// tables' position.
func (f *refold) catchUp(ctx context.Context) error {
	for range catchUpsMax {
		ends, err := f.endsNow(ctx)
		if err != nil {
			return err
		}
		near := f.remaining(ends) <= nearEndRecords
		if err := f.fill(ctx, ends); err != nil {
			return err
		}
		if near {
			return f.fillToLive(ctx)
		}
	}
	return fmt.Errorf("projections: facts come faster than they are folded again; repeat the " +
		"rebuild when there are fewer")
}

func (f *refold) fillToLive(ctx context.Context) error {
	live, err := f.DB.live(ctx)
	if err != nil {
		return err
	}
	for name := range live {
		if !slices.Contains(f.Tables, name) {
			delete(live, name)
		}
	}
	at, err := f.DB.progress(ctx, live)
	if err != nil {
		return err
	}
	return f.fill(ctx, at)
}

const (
	renameFilled = "RENAME TABLE {database:Identifier}.{filled:Identifier} " +
		"TO {database:Identifier}.{full:Identifier}"
	exchangeFull = "EXCHANGE TABLES {database:Identifier}.{table:Identifier} " +
		"AND {database:Identifier}.{full:Identifier}"
)

// exchange replaces the live tables with the new ones, in reverse order of writing. So a table that
// is read first is never ahead of the tables that it refers to (P3).
func (f *refold) exchange(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // from here on, finishing is quicker than undoing
	began := f.Now()
	for _, name := range slices.Backward(f.Tables) {
		if err := f.DB.releaseMerges(ctx, name+rebuildSuffix); err != nil {
			return err
		}
		// Only one of two concurrent rebuilds can give the table this name.
		names := Parameters{"table": name, "filled": name + rebuildSuffix, "full": name + exchangeSuffix}
		if err := f.DB.exec(ctx, renameFilled, names); err != nil {
			return fmt.Errorf("projections: %s is full but cannot be exchanged: %w", name, err)
		}
		if err := f.DB.exec(ctx, exchangeFull, names); err != nil {
			return fmt.Errorf("projections: exchanging %s: %w", name, err)
		}
	}
	for _, name := range f.Tables {
		if err := f.DB.drop(ctx, name+exchangeSuffix); err != nil {
			return err
		}
	}
	f.reportReaders(ctx, f.Now().Sub(began))
	return nil
}

const selectReaders = `
SELECT user, query_id, round(elapsed), left(query, 200) FROM system.processes
WHERE query_kind = 'Select' AND elapsed > {since:Float64} AND query_id != queryID()`

// reportReaders logs the queries that began before the exchange. They read the former tables, whose
// disk space is only freed when they end.
func (f *refold) reportReaders(ctx context.Context, since time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	which := Parameters{"since": strconv.FormatFloat(since.Seconds(), 'f', 3, 64)}
	err := f.DB.Query(ctx, selectReaders, which, func(read func(...any) error) error {
		var user, id, query string
		var seconds float64
		err := read(&user, &id, &seconds, &query)
		f.Logger.Info("a query still reads the former tables; their disk space is free when it ends, "+
			"and KILL QUERY WHERE query_id = … stops it",
			"user", user, "query_id", id, "seconds", seconds, "query", query)
		return err
	})
	if err != nil && !IsDenied(err) {
		f.Logger.Warn("looking for queries that still read the former tables", "error", err)
	}
}
