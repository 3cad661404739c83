package writer

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	day            = 24 * time.Hour
	leastRetention = 7 * day // longer than the longest schedule of a run
)

// CheckRetention returns the error that SetRetention would return for an invalid retention.
func CheckRetention(retention time.Duration) error {
	if retention != 0 && retention < leastRetention {
		return fmt.Errorf("projections: a retention of %dd is too short: it must be at least %dd, or 0 "+
			"to keep everything", retention/day, leastRetention/day)
	}
	return nil
}

// SetRetention makes ClickHouse delete older rows, at a time of its choosing. A retention of zero
// keeps everything. Only tables with a different setting are changed.
func SetRetention(ctx context.Context, db *DB, retention time.Duration) error {
	if err := CheckRetention(retention); err != nil {
		return err
	}
	db, err := db.pin(ctx)
	if err != nil {
		return err
	}
	for _, t := range tableSpecs {
		if t.age == "" {
			continue
		}
		if err := db.setRetention(ctx, t.name, retention); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) setRetention(ctx context.Context, table string, retention time.Duration) error {
	at, err := db.Retention(ctx, table)
	if err != nil || at == retention {
		return err
	}
	if _, err = db.markDamage(ctx); err == nil {
		err = db.exec(ctx, forgetParts, Parameters{"table": table})
	}
	if err == nil || IsDenied(err) {
		err = db.exec(ctx, alterRetention(table, retention), Parameters{"table": table})
	}
	if err != nil {
		return fmt.Errorf("projections: setting the retention of %s: %w", table, err)
	}
	return nil
}

func alterRetention(table string, retention time.Duration) string {
	const alter = "ALTER TABLE {database:Identifier}.{table:Identifier} "
	if retention == 0 {
		return alter + "REMOVE TTL"
	}
	age := specOf(strings.TrimSuffix(table, rebuildSuffix)).age
	return alter + "MODIFY TTL toDateTime(" + age + ") + toIntervalSecond(" +
		strconv.FormatInt(int64(retention/time.Second), 10) + ")"
}

var ttl = regexp.MustCompile(`\bTTL .*?toIntervalSecond\((\d+)\)`)

const selectEngine = `
SELECT engine_full FROM system.tables
WHERE database = {database:String} AND name = {table:String}`

// Retention returns the retention of a table, or 0 if it is unlimited.
func (db *DB) Retention(ctx context.Context, table string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	var engine string
	err := db.QueryRow(ctx, selectEngine, Parameters{"table": table}, &engine)
	if err != nil {
		return 0, fmt.Errorf("projections: asking for the retention of %s: %w", table, err)
	}
	m := ttl.FindStringSubmatch(engine)
	if m == nil {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(m[1], 10, 64)
	return time.Duration(seconds) * time.Second, err
}

func (f *refold) copyRetention(ctx context.Context) error {
	for _, name := range f.Tables {
		if specOf(name).age == "" {
			continue
		}
		retention, err := f.DB.Retention(ctx, name)
		if err != nil {
			return err
		}
		if err := f.DB.setRetention(ctx, name+f.suffix, retention); err != nil {
			return err
		}
	}
	return nil
}
