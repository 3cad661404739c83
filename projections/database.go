package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	defaultDatabase = "lumenhook"
	connectionsMax  = 16
	dialMax         = 2 * time.Second // also bounds the wait for a connection of the pool
	statementMax    = 10 * time.Second
)

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// ClickHouse's codes for what does not exist.
const (
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
)

// isMissing tells whether ClickHouse answered that the table or the database does
// not exist: no projector has made it yet.
func isMissing(err error) bool {
	if errors.As(err, new(errTablesMissing)) {
		return true
	}
	var refused *clickhouse.Exception
	return errors.As(err, &refused) && (refused.Code == codeUnknownTable || refused.Code == codeUnknownDatabase)
}

// DB is a database in ClickHouse, with a bounded pool of connections. It may be
// used by many goroutines.
type DB struct {
	conn clickhouse.Conn
	name string
}

// Open prepares connections to the database that a DSN names, such as
// clickhouse://127.0.0.1:9000/lumenhook; without a path it is "lumenhook". It
// does not connect: ClickHouse may be away.
func Open(dsn string) (*DB, error) {
	opts, name, err := readDSN(dsn)
	if err != nil {
		return nil, err
	}
	// The session's own database is one that is always there, and every query
	// names ours: ours may be dropped and made anew under open connections, and a
	// libchdb server dies of a session that begins in one that does not exist.
	opts.Auth.Database = "system"
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialMax)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, statementMax)
	opts.MaxOpenConns = cmp.Or(opts.MaxOpenConns, connectionsMax)
	opts.MaxIdleConns = cmp.Or(opts.MaxIdleConns, opts.MaxOpenConns)
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("projections: opening ClickHouse: %w", err)
	}
	return &DB{conn: conn, name: name}, nil
}

// CheckDSN tells whether Open would take a DSN.
func CheckDSN(dsn string) error {
	_, _, err := readDSN(dsn)
	return err
}

func readDSN(dsn string) (opts *clickhouse.Options, database string, err error) {
	if opts, err = clickhouse.ParseDSN(dsn); err != nil {
		return nil, "", fmt.Errorf("projections: the ClickHouse DSN must be like clickhouse://user:password@host:9000/lumenhook: %w", err)
	}
	database = cmp.Or(opts.Auth.Database, defaultDatabase)
	if !databaseName.MatchString(database) {
		return nil, "", fmt.Errorf("projections: the database %q in the ClickHouse DSN must be 1 to 63 letters, digits or underscores and not begin with a digit", database)
	}
	return opts, database, nil
}

// Name is the database's name.
func (db *DB) Name() string { return db.name }

// Ping tells whether ClickHouse answers.
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

// parameters are what queries name by {name:Type}. ClickHouse puts them in, and
// "database" is always one of them.
type parameters map[string]string

func (db *DB) bind(ctx context.Context, p parameters) context.Context {
	all := clickhouse.Parameters{"database": db.name}
	for name, value := range p {
		all[name] = value
	}
	return clickhouse.Context(ctx, clickhouse.WithParameters(all))
}

func (db *DB) exec(ctx context.Context, statement string, p parameters) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	return db.conn.Exec(db.bind(ctx, p), statement)
}

// queryRow reads at most one row into dest; its error is sql.ErrNoRows when there
// is none.
func (db *DB) queryRow(ctx context.Context, query string, p parameters, dest ...any) error {
	return db.conn.QueryRow(db.bind(ctx, p), query).Scan(dest...)
}

// query calls scan for each row, with a function that reads the row.
func (db *DB) query(ctx context.Context, query string, p parameters, scan func(read func(dest ...any) error) error) error {
	rows, err := db.conn.Query(db.bind(ctx, p), query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
