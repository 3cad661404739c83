package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	defaultDatabase = "lumenhook"
	connectionsMax  = 16
	dialMax         = 2 * time.Second // also bounds the wait for a connection of the pool
	statementMax    = 10 * time.Second
)

// codeUnknownDatabase is ClickHouse's code for a database that does not exist.
const codeUnknownDatabase = 81

// DB is a database in ClickHouse, with a bounded pool of connections. It may be
// used by many goroutines.
type DB struct {
	conn clickhouse.Conn
	opts clickhouse.Options
}

// Open prepares connections to the database that a DSN names, such as
// clickhouse://127.0.0.1:9000/lumenhook; without a path it is "lumenhook". It
// does not connect: ClickHouse may be away.
func Open(dsn string) (*DB, error) {
	opts, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("projections: the ClickHouse DSN must be like clickhouse://user:password@host:9000/lumenhook: %w", err)
	}
	opts.Auth.Database = cmp.Or(opts.Auth.Database, defaultDatabase)
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialMax)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, statementMax)
	opts.MaxOpenConns = cmp.Or(opts.MaxOpenConns, connectionsMax)
	opts.MaxIdleConns = cmp.Or(opts.MaxIdleConns, opts.MaxOpenConns)
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("projections: opening ClickHouse: %w", err)
	}
	return &DB{conn: conn, opts: *opts}, nil
}

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	if err := db.conn.Ping(ctx); err != nil {
		return fmt.Errorf("projections: reaching ClickHouse: %w", err)
	}
	return nil
}

// Close ends all connections.
func (db *DB) Close() error { return db.conn.Close() }

func (db *DB) exec(ctx context.Context, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	return db.conn.Exec(ctx, statement, args...)
}

// ensureDatabase creates the database when it is missing. A connection names its
// database from the start, so this one names another.
func (db *DB) ensureDatabase(ctx context.Context) error {
	err := db.Ping(ctx)
	var refused *clickhouse.Exception
	if !errors.As(err, &refused) || refused.Code != codeUnknownDatabase {
		return err
	}
	opts := db.opts
	opts.Auth.Database = "default"
	opts.MaxOpenConns, opts.MaxIdleConns = 1, 1
	conn, err := clickhouse.Open(&opts)
	if err != nil {
		return fmt.Errorf("projections: opening ClickHouse: %w", err)
	}
	defer conn.Close()
	elsewhere := &DB{conn: conn}
	if err := elsewhere.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quoted(db.opts.Auth.Database)); err != nil {
		return fmt.Errorf("projections: creating the database %s: %w", db.opts.Auth.Database, err)
	}
	return nil
}
