// Package clickhousetest gives tests a real ClickHouse engine. It hides how the
// engine is found, installed and thrown away.
//
// The engine is a re-executed copy of the test binary, so every package that uses
// it has
//
//	func TestMain(m *testing.M) { clickhousetest.Main(m) }
//
// Invariant: a test that needs the engine gets it or fails; only the short run (go test -short)
// leaves it out. The library is installed through npm into the user's cache when it is missing.
//
// File map:
//
//	clickhousetest.go  an engine of the test's own
//	shared.go          a database of the test's own, on an engine that tests share
package clickhousetest

import (
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
	startMax   = 2 * time.Minute // a machine that runs every package's tests at once is slow
)

// Main is the whole TestMain of a package that starts engines.
func Main(m *testing.M) {
	clickhouse.MaybeChild()
	os.Exit(Sharing(m).Run())
}

// Program finds the engine and installs it when missing.
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

// Grants returns the additional rights of tests: they have their own databases, drop tables and
// read ClickHouse's internals.
func Grants() []string {
	return []string{
		"SHOW, SELECT, INSERT, ALTER TABLE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, " +
			"TRUNCATE, OPTIMIZE ON *.*",
		"CREATE DATABASE, DROP DATABASE, SYSTEM MERGES, CHECK ON *.*", "TABLE ENGINE ON Atomic",
	}
}

// Start returns an engine of the test's own, on free ports and an empty folder,
// which is stopped when the test ends. Its service has the rights of Grants too.
func Start(t testing.TB) *clickhouse.Engine {
	t.Helper()
	return StartWith(t, clickhouse.Config{Program: Program(t), DataDir: t.TempDir(), Grants: Grants()})
}

// StartWith is Start with settings of the test's choosing.
func StartWith(t testing.TB, cfg clickhouse.Config) *clickhouse.Engine {
	t.Helper()
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
		if err := e.Stop(); err != nil { // a busy machine takes longer than the engine's timeout
			t.Logf("stopping the ClickHouse engine: %v", err)
		}
	})
	return e
}

// Logger writes into the test's own output.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
