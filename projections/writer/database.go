package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	defaultDatabase = "lumenhook"
	connectionsMax  = 16
	// ReadsMax is the maximum number of concurrent history reads per server. It leaves connections for
	// reads of progress. Further reads wait in order of arrival.
	ReadsMax     = connectionsMax - 4
	dialMax      = 2 * time.Second // also limits the wait for a pooled connection
	statementMax = 10 * time.Second
)

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Error codes of ClickHouse.
const (
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
	CodeAccessDenied    = 497
)

// HasCode reports whether ClickHouse rejected a query with one of these error codes.
func HasCode(err error, codes ...int32) bool {
	var refused *clickhouse.Exception
	return errors.As(err, &refused) && slices.Contains(codes, refused.Code)
}

// IsMissing reports whether the table or database doesn't exist, because no projector has created
// it yet.
func IsMissing(err error) bool {
	return errors.As(err, new(errTablesMissing)) ||
		HasCode(err, codeUnknownTable, codeUnknownDatabase)
}

// DB is a ClickHouse database, on one server with a limited connection pool, or on each of several
// servers in the DSN (servers.go). It is safe for concurrent use.
type DB struct {
	name string

	conn clickhouse.Conn // nil if there are several servers
	addr string          // the server's address
	opts *clickhouse.Options

	each []*DB         // one per server; nil if there is only one
	used *atomic.Int32 // index of the server in use

	suspected *atomic.Bool // a read found a broken file; shared by all servers
}

// Open prepares connections to the database in a DSN, such as
// clickhouse://127.0.0.1:9000/lumenhook. The default database is "lumenhook". Open doesn't connect,
// so ClickHouse may be unavailable.
func Open(dsn string) (*DB, error) {
	d, err := readDSN(dsn)
	if err != nil {
		return nil, err
	}
	opts := d.opts
	// Sessions start in a database that always exists, and queries name ours explicitly. Ours may be
	// dropped and recreated while connections are open, and a libchdb server crashes if a session
	// starts in a database that doesn't exist.
	opts.Auth.Database = "system"
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialMax)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, statementMax)
	opts.MaxOpenConns = cmp.Or(opts.MaxOpenConns, connectionsMax)
	opts.MaxIdleConns = cmp.Or(opts.MaxIdleConns, opts.MaxOpenConns)
	return openServers(d)
}

// CheckDSN returns the error that Open would return for the DSN.
func CheckDSN(dsn string) error {
	_, err := readDSN(dsn)
	return err
}

type source struct {
	opts     *clickhouse.Options
	database string
}

func readDSN(dsn string) (d source, err error) {
	err = eachOnce(dsn)
	if err == nil {
		d.opts, err = clickhouse.ParseDSN(dsn)
	}
	if err == nil {
		err = useFiles(d.opts)
	}
	if err != nil {
		return d, fmt.Errorf("projections: the ClickHouse DSN must be like "+
			"clickhouse://user:password@host:9000/lumenhook: %w", err)
	}
	d.database = cmp.Or(d.opts.Auth.Database, defaultDatabase)
	if !databaseName.MatchString(d.database) {
		return d, fmt.Errorf("projections: the database %q in the ClickHouse DSN must be 1 to 63 "+
			"letters, digits or underscores and not begin with a digit", d.database)
	}
	return d, nil
}

// eachOnce rejects repeated parameters, of which the client would only use the first.
func eachOnce(dsn string) error {
	_, query, _ := strings.Cut(dsn, "?")
	values, err := url.ParseQuery(query)
	for name, given := range values {
		if len(given) > 1 {
			err = errors.Join(err, fmt.Errorf("%s is there twice", name))
		}
	}
	return err
}

// DSN parameters in addition to the client's own: PEM files for TLS.
const (
	DSNCAFile   = "ca_file"   // CAs of the server's certificate
	DSNCertFile = "cert_file" // the client's certificate
	DSNKeyFile  = "key_file"
)

// takeParameter returns one of our parameters and removes it from the client's session settings.
func takeParameter(opts *clickhouse.Options, name string) string {
	value, is := opts.Settings[name]
	delete(opts.Settings, name)
	if !is {
		return ""
	}
	return fmt.Sprint(value)
}

func useFiles(opts *clickhouse.Options) error {
	files := kafka.TLS{
		CAFile:   takeParameter(opts, DSNCAFile),
		CertFile: takeParameter(opts, DSNCertFile),
		KeyFile:  takeParameter(opts, DSNKeyFile),
	}
	if files == (kafka.TLS{}) {
		return nil
	}
	if opts.TLS == nil {
		return errors.New("files of certificates are for TLS: add secure=true")
	}
	files.Enabled = true
	if err := files.Check(); err != nil {
		return err
	}
	c, err := files.Config()
	if err != nil {
		return err
	}
	opts.TLS.RootCAs, opts.TLS.Certificates, opts.TLS.MinVersion = c.RootCAs, c.Certificates,
		c.MinVersion
	return nil
}

// Name returns the database's name.
func (db *DB) Name() string { return db.name }

// Ping returns an error if ClickHouse doesn't respond.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	if err := db.Server().conn.Ping(ctx); err != nil {
		return fmt.Errorf("projections: reaching ClickHouse: %w", err)
	}
	return nil
}

// Parameters are query parameters for {name:Type}, which ClickHouse substitutes. "database" is
// always set.
type Parameters map[string]string

func (db *DB) bind(ctx context.Context, p Parameters) context.Context {
	all := clickhouse.Parameters{"database": db.name}
	for name, value := range p {
		all[name] = value
	}
	return clickhouse.Context(ctx, clickhouse.WithParameters(all))
}

func (db *DB) exec(ctx context.Context, statement string, p Parameters) error {
	return db.execWithin(ctx, statementMax, statement, p)
}

// QueryRow scans a single row into dest. If there is none, the error is sql.ErrNoRows.
func (db *DB) QueryRow(ctx context.Context, query string, p Parameters, dest ...any) error {
	err := db.Server().conn.QueryRow(db.bind(ctx, p), query).Scan(dest...)
	db.suspect(err)
	return err
}

// Query calls scan for each row. read copies the row's columns into dest.
func (db *DB) Query(
	ctx context.Context, query string, p Parameters, scan func(read func(dest ...any) error) error,
) (err error) {
	defer func() { db.suspect(err) }()
	rows, err := db.Server().conn.Query(db.bind(ctx, p), query)
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

// Pairs returns the rows of a short query with two columns: a unique key, and its value.
func Pairs[K comparable, V any](
	ctx context.Context, db *DB, query string, p Parameters,
) (map[K]V, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	by := make(map[K]V)
	err := db.Query(ctx, query, p, func(read func(...any) error) error {
		var key K
		var value V
		err := read(&key, &value)
		by[key] = value
		return err
	})
	return by, err
}

func (db *DB) execWithin(
	ctx context.Context, limit time.Duration, statement string, p Parameters,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return db.Server().conn.Exec(db.bind(ctx, p), statement)
}

// insertSettings leave collapsing rows to merges, because looking for duplicates in each block took
// half of the write time. They also lift ClickHouse's limit on partitions per insert: a block may
// span many months, for example in a backfill of all ledgers since 2015.
var insertSettings = clickhouse.WithSettings(clickhouse.Settings{
	"optimize_on_insert":              0,
	"max_partitions_per_insert_block": 0,
})
