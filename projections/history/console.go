package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/projections/writer"
)

const consoleMemoryMaxBytes = 1 << 30

// ConsoleConfig limits users' queries.
type ConsoleConfig struct {
	DSN     string
	RowsMax int           // per result; further rows are dropped
	TimeMax time.Duration // per query
}

// Console executes users' queries. They can neither write nor raise the limits.
type Console struct {
	db   *writer.DB
	conn clickhouse.Conn
	cfg  ConsoleConfig
}

// Answer is the result of a query.
type Answer struct {
	Columns   []string
	Types     []string // ClickHouse's type names
	Rows      [][]any  // NULL is nil
	Truncated bool     // there were more rows than RowsMax
}

// OpenConsole connects to the database in a DSN.
func OpenConsole(ctx context.Context, cfg ConsoleConfig) (*Console, error) {
	db, err := writer.Open(cfg.DSN)
	if err != nil {
		return nil, err
	}
	conn, err := db.Connect(ctx, func(opts *clickhouse.Options) {
		opts.ReadTimeout += cfg.TimeMax
		opts.Settings = clickhouse.Settings{
			"readonly":           1,
			"max_execution_time": int(cfg.TimeMax.Seconds()), "max_memory_usage": consoleMemoryMaxBytes,
			"max_result_rows": cfg.RowsMax + 1, "result_overflow_mode": "break",
		}
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Console{db: db, conn: conn, cfg: cfg}, nil
}

// Close closes all connections.
func (c *Console) Close() error { return errors.Join(c.conn.Close(), c.db.Close()) }

var killQuery = regexp.MustCompile(`(?i)^\s*KILL\b`)

// Query executes a single statement.
func (c *Console) Query(ctx context.Context, statement string) (Answer, error) {
	var a Answer
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TimeMax)
	defer cancel()
	rows, err := c.conn.Query(ctx, strings.TrimRight(strings.TrimSpace(statement), "; \n"))
	if errors.Is(err, io.EOF) && killQuery.MatchString(statement) {
		return a, nil // no query matched, and the answer has not even columns
	}
	if err != nil {
		return a, consoleFault(err)
	}
	defer rows.Close()
	a.Columns = rows.Columns()
	var kinds []reflect.Type
	for _, t := range rows.ColumnTypes() {
		a.Types = append(a.Types, t.DatabaseTypeName())
		kinds = append(kinds, t.ScanType())
	}
	for rows.Next() {
		if len(a.Rows) == c.cfg.RowsMax {
			a.Truncated = true
			return a, nil
		}
		row := make([]any, len(kinds))
		for i, kind := range kinds {
			row[i] = reflect.New(kind).Interface()
		}
		if err := rows.Scan(row...); err != nil {
			return a, consoleFault(err)
		}
		for i := range row {
			row[i] = plain(reflect.ValueOf(row[i]).Elem())
		}
		a.Rows = append(a.Rows, row)
	}
	return a, consoleFault(rows.Err())
}

func plain(v reflect.Value) any {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	return v.Interface()
}

// ClickHouse error codes that the console explains.
const (
	codeTimeout             = 159
	codeReadonly            = 164
	codeConstraintViolation = 452
)

// settingName matches a refusal to change a setting.
var settingName = regexp.MustCompile(`(?i)(?:modify|setting) '?(\w+)`)

// consoleFault returns an error for the user. It contains ClickHouse's own message, which is about
// the user's query.
func consoleFault(err error) error {
	var refused *clickhouse.Exception
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(
		err, &refused,
	) && refused.Code == codeTimeout:
		return errors.New("the query took too long and was stopped: --timeout allows more")
	case errors.As(err, &refused) &&
		(refused.Code == codeReadonly || refused.Code == codeConstraintViolation):
		if name := settingName.FindStringSubmatch(refused.Message); name != nil {
			return fmt.Errorf("the history is read-only here: the setting %s can't be changed", name[1])
		}
		return errors.New("the history is read-only here: you can only run queries")
	case errors.As(err, &refused) && refused.Code == writer.CodeAccessDenied:
		return fmt.Errorf("the history is read-only here, and nothing but its tables and views is "+
			"open: ClickHouse: %s", refused.Message)
	case errors.As(err, &refused):
		return fmt.Errorf("ClickHouse: %s", refused.Message)
	}
	return fmt.Errorf("projections: asking ClickHouse: %w", err)
}
