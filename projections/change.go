package projections

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// change executes a statement that creates, changes or drops tables.
func (db *DB) change(ctx context.Context, statement string, p parameters) error {
	return db.changeWithin(ctx, statementMax, statement, p)
}

// changeWithin bounds the time of the statement.
func (db *DB) changeWithin(
	ctx context.Context, limit time.Duration, statement string, p parameters,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return db.server().conn.Exec(db.bind(ctx, p), statement)
}

// insertSettings leave it to merges to collapse rows: looking for copies in every block
// took half of its writing time. A block may span many months: the ledgers since 2015, read
// by a backfill, are more partitions than ClickHouse accepts in one insert by default.
var insertSettings = clickhouse.WithSettings(clickhouse.Settings{
	"optimize_on_insert":              0,
	"max_partitions_per_insert_block": 0,
})

// inserting returns the context of a write.
func inserting(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, insertSettings)
}
