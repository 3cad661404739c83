package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

// nextMigration is an example of a migration in the program's next version: a column, a view that
// shows it, and a table.
var nextMigration = schemas.Migration{Version: 3, Name: "0003_next.sql", Statements: []string{
	`ALTER TABLE {database:Identifier}.attempts
ADD COLUMN IF NOT EXISTS region LowCardinality(String) DEFAULT 'eu' COMMENT 'x' AFTER error`,
	`CREATE OR REPLACE VIEW {database:Identifier}.error_mix
AS SELECT region, count() AS attempts FROM {database:Identifier}.attempts FINAL GROUP BY region`,
	`CREATE TABLE IF NOT EXISTS {database:Identifier}.notes (note String) ENGINE = MergeTree ORDER BY note`,
}}

// A migration to the next schema version that is interrupted before it is recorded can be
// repeated. It keeps rows and progress, and afterwards this version of the program rejects the
// database.
func TestAHistoryIsUpgraded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	s := newStory(1)
	for n := range 10 {
		r.append(s.created(n), s.delivered(n, 1))
	}
	run := r.project(nil)
	r.awaitProjected()
	run.finish(t)
	rows, progress := r.checksum(), r.count("SELECT sum(cityHash64(*)) FROM projection_progress FINAL")
	next := append(schemas.ClickHouseMigrations(), nextMigration)
	r.exec("ALTER TABLE schema_versions ADD CONSTRAINT cut CHECK version != 3")
	if err := writer.MigrateTo(t.Context(), r.db, next); err == nil {
		t.Fatal("the migration was not interrupted")
	}
	r.exec("ALTER TABLE schema_versions DROP CONSTRAINT cut")
	for range 2 { // repeating it must not change anything
		must(t, writer.MigrateTo(t.Context(), r.db, next))
	}
	for query, want := range map[string]uint64{
		"SELECT count() FROM attempts FINAL WHERE region = 'eu'":                                 10,
		"SELECT attempts FROM error_mix WHERE region = 'eu'":                                     10,
		"SELECT count() FROM notes":                                                              0,
		"SELECT count() FROM schema_versions FINAL":                                              3,
		"SELECT count() FROM schema_versions FINAL WHERE version = 3 AND name = '0003_next.sql'": 1,
	} {
		if got := r.count(query); got != int(want) {
			t.Errorf("%s gives %d, not %d", query, got, want)
		}
	}
	r.exec("ALTER TABLE attempts DROP COLUMN region") // the checksum covers all columns
	if got := r.checksum(); got != rows {
		t.Errorf("the tables are\n%s\nand were\n%s", got, rows)
	}
	if got := r.count("SELECT sum(cityHash64(*)) FROM projection_progress FINAL"); got != progress {
		t.Error("the progress of the tables changed")
	}
	err := writer.Migrate(t.Context(), r.db)
	if err == nil || !strings.Contains(err.Error(), "0003_next.sql") ||
		!strings.Contains(err.Error(), "run a newer lumenhook") {
		t.Errorf("this version meets the database with %v", err)
	}
}

func TestADatabaseOfAnUnreleasedVersionIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	db := r.openOther("unreleased")
	must(t, writer.Migrate(t.Context(), db))
	r.exec("ALTER TABLE " + db.Name() + ".schema_versions UPDATE name = '0001_payments.sql' WHERE version = 1 " +
		"SETTINGS mutations_sync = 1")
	r.exec("INSERT INTO " + db.Name() + ".schema_versions (version, name) VALUES (21, '0021_error_detail.sql')")
	err := writer.Migrate(t.Context(), db)
	if err == nil || !strings.Contains(err.Error(), "drop it, and it is rebuilt from the topics") {
		t.Errorf("the migration ended with %v", err)
	}
}

// lacks removes tables and columns that the program reads. A database may lack each of them
// during a migration.
var lacks = []string{
	"DROP TABLE attempt_log SYNC",
	"DROP TABLE attempt_counts SYNC",
	"DROP TABLE facts SYNC",
	"DROP TABLE delivery_facts SYNC",
	"DROP TABLE balance_moves SYNC",
	"DROP TABLE deliveries SYNC",
	"DROP TABLE events SYNC",
	"ALTER TABLE attempts DROP COLUMN error_detail",
	"ALTER TABLE attempts DROP COLUMN log_from",
	"ALTER TABLE deliveries DROP COLUMN sequence",
	"ALTER TABLE deliveries DROP COLUMN moved_to",
	"ALTER TABLE deliveries DROP COLUMN ended_run",
	"ALTER TABLE events DROP INDEX by_sequence, DROP COLUMN sequence",
	"ALTER TABLE events DROP INDEX by_memo, DROP COLUMN memo",
}

// While a table or a column is missing, each read must report that the history is behind, and
// never another failure.
func TestReadsDuringAMigration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	behind := make(map[string]bool)
	for n, change := range append(lacks, "") {
		db := r.openOther(fmt.Sprintf("lacks_%d", n))
		if change == "" { // without even a database
			change = "nothing is there"
		} else {
			must(t, writer.Migrate(t.Context(), db))
			r.exec(strings.NewReplacer("DROP TABLE ", "DROP TABLE "+db.Name()+".",
				"ALTER TABLE ", "ALTER TABLE "+db.Name()+".").Replace(change))
		}
		h := history.New(history.Config{
			DB: db, Ends: r.journalEnds, PaymentsEnds: r.paymentsEnds,
			WaitMax: 50 * time.Millisecond, ReadMax: readMax,
		})
		for what, read := range readsOf(h, s) {
			err := read(t.Context())
			behind[what] = behind[what] || errors.Is(err, readmodel.ErrBehind)
			if err != nil && !errors.Is(err, readmodel.ErrBehind) &&
				!errors.Is(err, readmodel.ErrNotFound) && !errors.Is(err, readmodel.ErrUnavailable) {
				t.Errorf("%s after %q: %v", what, change, err)
			}
		}
	}
	for _, what := range []string{"events", "found events", "numbered", "number before"} {
		if !behind[what] {
			t.Errorf("%s: never behind", what)
		}
	}
}

func readsOf(h *history.History, s *story) map[string]func(context.Context) error {
	account := readmodel.EventFilter{AccountID: testAccount}
	found := account
	found.Memo = "42"
	steps := readmodel.StepFilter{AccountID: testAccount, ID: s.endpointID, Limit: 10}
	return map[string]func(context.Context) error{
		"event": func(ctx context.Context) error {
			_, err := h.Event(ctx, testAccount, s.eventID(1))
			return err
		},
		"recall": func(ctx context.Context) error {
			_, err := h.Recall(ctx, testAccount, s.eventID(1))
			return err
		},
		"events": func(ctx context.Context) error {
			_, _, err := h.Events(ctx, account, nil, 10)
			return err
		},
		"found events": func(ctx context.Context) error {
			_, _, err := h.Events(ctx, found, nil, 10)
			return err
		},
		"choose": func(ctx context.Context) error {
			_, _, err := h.Choose(ctx, account, nil, 10)
			return err
		},
		"numbered": func(ctx context.Context) error {
			_, err := h.Numbered(ctx, testAccount, s.endpointID, 0, 10)
			return err
		},
		"number before": func(ctx context.Context) error {
			_, err := h.NumberBefore(ctx, testAccount, s.endpointID, 1)
			return err
		},
		"more": func(ctx context.Context) error { return h.AwaitMore(ctx, s.endpointID, -1) },
		"rates": func(ctx context.Context) error {
			_, err := h.Rates(ctx, readmodel.RatesFilter{AccountID: testAccount, ToMillis: 1})
			return err
		},
		"log size": func(ctx context.Context) error {
			_, err := h.LogSize(ctx, s.endpointID, 0)
			return err
		},
		"log hashes": func(ctx context.Context) error {
			_, err := h.LogHashes(ctx, s.endpointID, 0, []uint64{1})
			return err
		},
		"statement": func(ctx context.Context) error {
			_, err := h.Statement(ctx, readmodel.StatementFilter{AccountID: testAccount, Wallet: "G"},
				readmodel.StatementPosition{}, 10)
			return err
		},
		"endpoint steps": func(ctx context.Context) error {
			_, err := h.EndpointSteps(ctx, steps)
			return err
		},
		"watch steps": func(ctx context.Context) error {
			_, err := h.WatchSteps(ctx, steps)
			return err
		},
		"event steps": func(ctx context.Context) error {
			_, err := h.EventSteps(ctx, steps)
			return err
		},
		"catch up": func(ctx context.Context) error { return h.CatchUp(ctx) },
	}
}
