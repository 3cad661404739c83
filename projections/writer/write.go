package writer

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

const (
	insertMax  = 30 * time.Second // per insert, including the server's work
	insertsMax = 3                // concurrent inserts of a block
)

// leadingTable is read first, because its rows refer to those of the other tables.
const leadingTable = "deliveries"

// column is a column's name and its values, in a slice type that the client accepts.
type column struct {
	name   string
	values any
}

type table struct {
	name   string
	rows   int
	pieces iter.Seq[[]column]
}

func (db *DB) insert(ctx context.Context, t table) (err error) {
	if t.rows == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, insertMax)
	defer cancel()
	var batch driver.Batch
	for columns := range t.pieces {
		if batch == nil {
			batch, err = db.Server().conn.PrepareBatch(clickhouse.Context(ctx, insertSettings),
				"INSERT INTO "+db.name+"."+t.name+" ("+namesOf(columns)+")")
		} else {
			err = batch.Flush()
		}
		if err == nil {
			err = appendColumns(batch, columns)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = batch.Send()
	} else if batch != nil {
		_ = batch.Abort()
	}
	if err != nil {
		return fmt.Errorf("projections: writing to %s: %w", t.name, err)
	}
	return nil
}

func namesOf(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func appendColumns(batch driver.Batch, columns []column) error {
	for i, c := range columns {
		if err := batch.Column(i).Append(c.values); err != nil {
			return fmt.Errorf("the column %s: %w", c.name, err)
		}
	}
	return nil
}

// write writes a block to the layout's tables and then records the progress (P1). In between, it
// checks the layout and the tables' rows. If a table was exchanged or lost rows, it contains at
// most the rows of this block, and the next session starts from that table's own progress.
func (db *DB) write(ctx context.Context, b *block, l layout) error {
	if err := db.insertBlock(ctx, b, l); err != nil {
		return err
	}
	inserted, checking := errgroup.WithContext(ctx)
	inserted.Go(func() error { return db.check(checking, l) })
	inserted.Go(func() error { return db.checkContinuity(checking, l, b.from) })
	if err := inserted.Wait(); err != nil {
		return err
	}
	return db.recordProgress(ctx, l, b.next)
}

// insertBlock writes the tables concurrently, and then the table that refers to the others (P3).
func (db *DB) insertBlock(ctx context.Context, b *block, l layout) error {
	insert := func(ctx context.Context, name string) error {
		t := specOf(name).of(b)
		t.name = l[name].name
		return db.insert(ctx, t)
	}
	first, inserting := errgroup.WithContext(ctx)
	first.SetLimit(insertsMax)
	last := ""
	for _, name := range l.tables() {
		if name == leadingTable {
			last = name
			continue
		}
		first.Go(func() error { return insert(inserting, name) })
	}
	if err := first.Wait(); err != nil || last == "" {
		return err
	}
	return insert(ctx, last)
}

func each[R, V any](rows []R, value func(*R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// of is [each] for the rows' bodies.
func of[B, V any](rows []row[B], value func(*B) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i].body)
	}
	return values
}

// optional replaces zero values with NULL.
func optional[V comparable](values []V) []*V {
	pointers := make([]*V, len(values))
	var zero V
	for i := range values {
		if values[i] != zero {
			pointers[i] = &values[i]
		}
	}
	return pointers
}
