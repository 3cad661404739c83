// Package clickhousetest provides tests with a real ClickHouse engine. It hides how the engine is
// found, installed and removed.
//
// The engine is a re-executed copy of the test binary, so every package that uses it needs
//
//	func TestMain(m *testing.M) { clickhousetest.Main(m) }
//
// Invariant: a test that needs the engine gets it or fails, except in short runs (go test -short),
// which skip the test. The library is installed into the user's cache with npm if it is missing.
//
// File map:
//
//	clickhousetest.go  an engine per test
//	shared.go          a database per test, on a shared engine
package clickhousetest

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const (
	installMax = 10 * time.Minute
	startMax   = 2 * time.Minute // slow on a machine that runs all packages' tests at once
)

// Main is the complete TestMain of a package that starts engines.
func Main(m *testing.M) {
	clickhouse.MaybeChild()
	os.Exit(Sharing(m).Run())
}

// Program finds the engine, and installs it if it is missing.
func Program(t testing.TB) clickhouse.Program {
	t.Helper()
	testkit.Long(t)
	ctx, cancel := context.WithTimeout(context.Background(), installMax)
	defer cancel()
	p, err := clickhouse.Find(ctx, clickhouse.Options{Progress: t.Output(), Logger: Logger(t)})
	if err != nil {
		t.Fatalf("no ClickHouse engine: %v", err)
	}
	return p
}

// Grants returns the service's privileges in tests, which create databases, drop tables and read
// ClickHouse's internals.
func Grants() []string {
	return []string{
		"SHOW, SELECT, INSERT, ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, " +
			"TRUNCATE, OPTIMIZE ON *.*",
		"SELECT ON system.parts", "SELECT ON system.detached_parts",
		"TABLE ENGINE ON MergeTree", "TABLE ENGINE ON ReplacingMergeTree",
		"TABLE ENGINE ON AggregatingMergeTree",
		"CREATE DATABASE, DROP DATABASE, SYSTEM MERGES, CHECK ON *.*", "TABLE ENGINE ON Atomic",
	}
}

// ServiceGrants returns the service's privileges in `lumenhook run`.
func ServiceGrants(database string) []string {
	return []string{
		"SHOW, SELECT, INSERT, ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, " +
			"TRUNCATE, CHECK ON `" + database + "`.*",
		"SELECT ON system.parts", "SELECT ON system.detached_parts",
		"TABLE ENGINE ON MergeTree", "TABLE ENGINE ON ReplacingMergeTree",
		"TABLE ENGINE ON AggregatingMergeTree",
	}
}

// Start returns a test's own engine on free ports with an empty folder. It stops when the test
// ends. Its service also has the privileges of Grants.
func Start(t testing.TB) *clickhouse.Engine {
	t.Helper()
	return StartWith(t, clickhouse.Config{Program: Program(t), DataDir: t.TempDir(), Grants: Grants()})
}

// StartWith is like Start, with the given settings. By default, the service's privileges are those
// of `lumenhook run`.
func StartWith(t testing.TB, cfg clickhouse.Config) *clickhouse.Engine {
	t.Helper()
	if cfg.Grants == nil {
		cfg.Grants = ServiceGrants(cmp.Or(cfg.Database, "lumenhook"))
	}
	if cfg.Logger == nil {
		cfg.Logger = Logger(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	e, err := clickhouse.Start(ctx, cfg)
	if err != nil {
		t.Fatalf("starting the ClickHouse engine: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil { // a busy machine may exceed the engine's timeout
			t.Logf("stopping the ClickHouse engine: %v", err)
		}
	})
	return e
}

// Logger returns a logger that writes to the test's output.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
