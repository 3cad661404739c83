package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
)

const createVersions = `CREATE TABLE IF NOT EXISTS schema_versions
(
    version    UInt32              COMMENT 'Number of the migration',
    name       String              COMMENT 'Its file in schemas/clickhouse',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it was applied'
)
ENGINE = ReplacingMergeTree
ORDER BY version
COMMENT 'Migrations that were applied to this database'`

// Migrate creates the database and brings its tables to the form that this
// program knows. Done again, or by several processes at once, it changes nothing:
// a migration is recorded after its statements, and each of those may be repeated.
func Migrate(ctx context.Context, db *DB) error {
	if err := db.ensureDatabase(ctx); err != nil {
		return err
	}
	if err := db.exec(ctx, createVersions); err != nil {
		return fmt.Errorf("projections: creating the table schema_versions: %w", err)
	}
	applied, err := db.appliedVersions(ctx)
	if err != nil {
		return err
	}
	migrations := schemas.ClickHouseMigrations()
	for version, name := range applied {
		if int(version) > len(migrations) {
			return fmt.Errorf("projections: the database %s has migration %s, and this program knows %d: run a newer lumenhook", db.opts.Auth.Database, name, len(migrations))
		}
	}
	for _, m := range migrations {
		if _, done := applied[m.Version]; done {
			continue
		}
		if err := db.apply(ctx, m); err != nil {
			return fmt.Errorf("projections: migration %s: %w", m.Name, err)
		}
	}
	return nil
}

func (db *DB) appliedVersions(ctx context.Context) (map[uint32]string, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	rows, err := db.conn.Query(ctx, "SELECT version, name FROM schema_versions")
	if err != nil {
		return nil, fmt.Errorf("projections: reading schema_versions: %w", err)
	}
	defer rows.Close()
	applied := make(map[uint32]string)
	for rows.Next() {
		var version uint32
		var name string
		if err := rows.Scan(&version, &name); err != nil {
			return nil, fmt.Errorf("projections: reading schema_versions: %w", err)
		}
		applied[version] = name
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("projections: reading schema_versions: %w", err)
	}
	return applied, nil
}

func (db *DB) apply(ctx context.Context, m schemas.Migration) error {
	for _, statement := range m.Statements {
		if err := db.exec(ctx, statement); err != nil {
			return err
		}
	}
	return db.exec(ctx, "INSERT INTO schema_versions (version, name) VALUES (?, ?)", m.Version, m.Name)
}

// quoted writes a name as ClickHouse reads one.
func quoted(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}
