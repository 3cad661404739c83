package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
)

const (
	createDatabase = `CREATE DATABASE IF NOT EXISTS {database:Identifier}`
	countDatabases = `SELECT count() FROM system.databases WHERE name = {database:String}`
	createVersions = `CREATE TABLE IF NOT EXISTS {database:Identifier}.schema_versions
(
    version    UInt32               COMMENT 'Number of the migration',
    name       String               COMMENT 'Its file in schemas/clickhouse',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was applied'
)
ENGINE = ReplacingMergeTree
ORDER BY version
COMMENT 'Migrations that were applied to this database'`
	selectVersions = `SELECT version, name FROM {database:Identifier}.schema_versions`
	insertVersion  = `
INSERT INTO {database:Identifier}.schema_versions (version, name)
SELECT {version:UInt32}, {name:String}`
)

// Migrate creates the database and applies missing migrations. It can be repeated, and run in
// several processes at once, because the statements can be repeated and a migration is recorded
// after them.
func Migrate(ctx context.Context, db *DB) error {
	return MigrateTo(ctx, db, schemas.ClickHouseMigrations())
}

// MigrateTo is like Migrate, with the migrations of another version of the program.
func MigrateTo(ctx context.Context, db *DB, migrations []schemas.Migration) error {
	db, err := db.pin(ctx)
	if err != nil {
		return err
	}
	if err := db.ensureDatabase(ctx); err != nil {
		return err
	}
	applied, err := db.ensureVersions(ctx)
	if err != nil {
		return err
	}
	for _, version := range slices.Sorted(maps.Keys(applied)) {
		name := applied[version]
		switch {
		case int(version) > len(migrations):
			return fmt.Errorf("projections: the database %s has migration %s, and this program knows %d: "+
				"run a newer lumenhook", db.name, name, len(migrations))
		case migrations[version-1].Name != name:
			return fmt.Errorf("projections: the database %s has migration %s where this program has %s: "+
				"an unreleased version made it; drop it, and it is rebuilt from the topics", db.name, name,
				migrations[version-1].Name)
		}
	}
	// A missing table or view is recreated. The new table has no progress, so it is filled from the
	// beginning.
	tables, err := db.generations(ctx)
	if err != nil {
		return err
	}
	dropped := slices.ContainsFunc(migrations, func(m schemas.Migration) bool {
		return slices.ContainsFunc(m.Statements, func(statement string) bool {
			made := createHead.FindStringSubmatch(statement)
			return made != nil && tables[made[1]] == ""
		})
	})
	for _, m := range migrations {
		if _, done := applied[m.Version]; done && !dropped {
			continue
		}
		if err := db.apply(ctx, m); err != nil {
			return fmt.Errorf("projections: migration %s: %w", m.Name, err)
		}
	}
	return nil
}

var createHead = regexp.MustCompile(
	`^CREATE (?:TABLE IF NOT EXISTS|OR REPLACE VIEW) \{database:Identifier\}\.(\w+)`)

// ensureVersions creates the tables for migrations and parts if necessary, and returns the applied
// migrations.
func (db *DB) ensureVersions(ctx context.Context) (applied map[uint32]string, err error) {
	tables, err := db.generations(ctx)
	if err != nil {
		return nil, err
	}
	for name, statement := range map[string]string{
		versionsTable: createVersions, partsTable: createParts,
	} {
		if _, there := tables[name]; there {
			continue
		}
		if err := db.exec(ctx, statement, nil); err != nil {
			return nil, fmt.Errorf("projections: creating the table %s: %w", name, err)
		}
	}
	return db.appliedVersions(ctx)
}

// ensureDatabase creates the database if it is missing. It checks first, because a user without the
// privilege to create databases can still use an existing one.
func (db *DB) ensureDatabase(ctx context.Context) error {
	var n uint64
	if err := db.firstAnswer(ctx, countDatabases, &n); err != nil {
		return fmt.Errorf("projections: reaching ClickHouse: %w", err)
	}
	if n > 0 {
		return nil
	}
	if err := db.exec(ctx, createDatabase, nil); err != nil {
		return fmt.Errorf("projections: creating the database %s: %w", db.name, err)
	}
	return nil
}

// firstAnswer sends the first query to ClickHouse and retries if the connection is reset or
// refused. Shortly after its start, a server may reopen its ports: it then resets connections that
// it had not accepted yet, and refuses new ones in between.
func (db *DB) firstAnswer(ctx context.Context, query string, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	wasReset := retry.Policy{
		First: 400 * time.Millisecond,
		Tries: 5,
		If: func(err error) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED)
		},
	}
	return retry.Do(ctx, wasReset, func() error { return db.QueryRow(ctx, query, nil, dest...) })
}

func (db *DB) appliedVersions(ctx context.Context) (map[uint32]string, error) {
	applied, err := Pairs[uint32, string](ctx, db, selectVersions, nil)
	if err != nil {
		return nil, fmt.Errorf("projections: reading schema_versions: %w", err)
	}
	return applied, nil
}

func (db *DB) apply(ctx context.Context, m schemas.Migration) error {
	for _, statement := range m.Statements {
		// ReplaceAll instead of a query parameter, which would become a parameter of the view.
		statement = strings.ReplaceAll(statement, "{database:Identifier}", db.name)
		if err := db.exec(ctx, statement, nil); err != nil {
			return err
		}
	}
	return db.exec(ctx, insertVersion,
		Parameters{"version": strconv.Itoa(int(m.Version)), "name": m.Name})
}
