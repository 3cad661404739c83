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
	// ReadsMax is how many reads of the history run at once on a server. It leaves connections for
	// the reads of progress. More reads wait in the order of their arrival.
	ReadsMax     = connectionsMax - 4
	dialMax      = 2 * time.Second // also bounds the wait for a pooled connection
	statementMax = 10 * time.Second
)

var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// ClickHouse's error codes.
const (
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
	CodeAccessDenied    = 497
)

// HasCode reports whether ClickHouse refused a query with one of these error codes.
func HasCode(err error, codes ...int32) bool {
	var refused *clickhouse.Exception
	return errors.As(err, &refused) && slices.Contains(codes, refused.Code)
}

// IsMissing reports whether ClickHouse answered that the table or the database does not
// exist: no projector has created it yet.
func IsMissing(err error) bool {
	return errors.As(err, new(errTablesMissing)) ||
		HasCode(err, codeUnknownTable, codeUnknownDatabase)
}

// DB is a database in ClickHouse: on one server, with a bounded pool of connections, or on each of
// several that a DSN names (servers.go). It is safe for concurrent use.
type DB struct {
	name string

	conn clickhouse.Conn // of one server; nil if there are several
	addr string          // of that server
	opts *clickhouse.Options

	each []*DB         // the servers, one each; nil if this is one
	used *atomic.Int32 // index of the server in use

	suspected *atomic.Bool // shared by all servers: a read met a broken file
}

// Open prepares connections to the database that a DSN names, such as
// clickhouse://127.0.0.1:9000/lumenhook; without a path it is "lumenhook". It does not
// connect: ClickHouse may be unavailable.
func Open(dsn string) (*DB, error) {
	d, err := readDSN(dsn)
	if err != nil {
		return nil, err
	}
	opts := d.opts
	// The session's own database is one that always exists, and every query names ours: ours may be
	// dropped and recreated under open connections, and a libchdb server crashes on a session that
	// begins in a database that does not exist.
	opts.Auth.Database = "system"
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialMax)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, statementMax)
	opts.MaxOpenConns = cmp.Or(opts.MaxOpenConns, connectionsMax)
	opts.MaxIdleConns = cmp.Or(opts.MaxIdleConns, opts.MaxOpenConns)
	return openServers(d)
}

// CheckDSN returns an error if Open would not accept a DSN.
func CheckDSN(dsn string) error {
	_, err := readDSN(dsn)
	return err
}

// source is the content of a DSN.
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

// eachOnce refuses a repeated parameter, of which the client would use only the first.
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

// Parameters of a DSN in addition to the client's: TLS files in PEM form.
const (
	DSNCAFile   = "ca_file"   // certificate authorities of the server's certificate
	DSNCertFile = "cert_file" // the client's certificate
	DSNKeyFile  = "key_file"
)

// takeParameter removes one of our parameters from those that the client would treat as settings of
// the session.
func takeParameter(opts *clickhouse.Options, name string) string {
	value, is := opts.Settings[name]
	delete(opts.Settings, name)
	if !is {
		return ""
	}
	return fmt.Sprint(value)
}

// useFiles makes TLS use the files that the DSN names.
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

// Ping returns an error unless ClickHouse answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	if err := db.Server().conn.Ping(ctx); err != nil {
		return fmt.Errorf("projections: reaching ClickHouse: %w", err)
	}
	return nil
}

// Parameters are used in queries as {name:Type}. ClickHouse inserts them. "database" is always one
// of them.
type Parameters map[string]string

func (db *DB) bind(ctx context.Context, p Parameters) context.Context {
	all := clickhouse.Parameters{"database": db.name}
	for name, value := range p {
		all[name] = value
	}
	return clickhouse.Context(ctx, clickhouse.WithParameters(all))
}

// exec executes a statement that creates, changes or drops tables, or writes a few rows.
func (db *DB) exec(ctx context.Context, statement string, p Parameters) error {
	return db.execWithin(ctx, statementMax, statement, p)
}

// QueryRow reads at most one row into dest. Without a row its error is sql.ErrNoRows.
func (db *DB) QueryRow(ctx context.Context, query string, p Parameters, dest ...any) error {
	err := db.Server().conn.QueryRow(db.bind(ctx, p), query).Scan(dest...)
	db.suspect(err)
	return err
}

// Query calls scan for each row, with a function that scans the row's columns.
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

// execWithin bounds the time of the statement.
func (db *DB) execWithin(
	ctx context.Context, limit time.Duration, statement string, p Parameters,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return db.Server().conn.Exec(db.bind(ctx, p), statement)
}

// insertSettings leave it to merges to collapse rows: looking for copies in every block took half
// of its write time. A block may span many months: the ledgers since 2015, read by a backfill, are
// more partitions than ClickHouse accepts in one insert by default.
var insertSettings = clickhouse.WithSettings(clickhouse.Settings{
	"optimize_on_insert":              0,
	"max_partitions_per_insert_block": 0,
})
