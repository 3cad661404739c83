package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/schemas"
)

// TestReadsDuringAMigration: while tables lack a column or a table, every read says that the
// history is not there yet, and finds nothing broken.
func TestReadsDuringAMigration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	migrations := schemas.ClickHouseMigrations()
	s := newStory(1)
	behind := make(map[string]bool)
	for done := range migrations {
		name := fmt.Sprintf("older_%d", done)
		r.exec("CREATE DATABASE " + name)
		for _, m := range migrations[:done] {
			for _, statement := range m.Statements {
				r.exec(strings.ReplaceAll(statement, "{database:Identifier}", name))
			}
		}
		db := r.open(strings.TrimSuffix(r.engine.DSN(), r.engine.Database()) + name)
		h := projections.NewHistory(projections.HistoryConfig{
			DB: db, Ends: r.journalEnds, PaymentsEnds: r.paymentsEnds,
			WaitMax: 50 * time.Millisecond, ReadMax: readMax,
		})
		for what, read := range readsOf(h, s) {
			err := read(t.Context())
			behind[what] = behind[what] || errors.Is(err, projections.ErrBehind)
			if err != nil && !errors.Is(err, projections.ErrBehind) &&
				!errors.Is(err, projections.ErrNotFound) && !errors.Is(err, projections.ErrUnavailable) {
				t.Errorf("%s after %d migrations: %v", what, done, err)
			}
		}
	}
	for _, what := range []string{"events", "found events", "numbered", "number before"} {
		if !behind[what] {
			t.Errorf("%s: never behind", what)
		}
	}
}

// readsOf are all reads of a history.
func readsOf(h *projections.History, s *story) map[string]func(context.Context) error {
	account := projections.EventFilter{AccountID: testAccount}
	found := account
	found.Memo = "42"
	steps := projections.StepFilter{AccountID: testAccount, ID: s.endpointID, Limit: 10}
	return map[string]func(context.Context) error{
		"event": func(ctx context.Context) error {
			_, err := h.Event(ctx, testAccount, s.eventID(1))
			return err
		},
		"recall": func(ctx context.Context) error {
			_, _, err := h.Recall(ctx, testAccount, s.eventID(1))
			return err
		},
		"events": func(ctx context.Context) error {
			_, err := h.Events(ctx, account, 10, projections.EventPosition{})
			return err
		},
		"found events": func(ctx context.Context) error {
			_, err := h.Events(ctx, found, 10, projections.EventPosition{})
			return err
		},
		"choose": func(ctx context.Context) error {
			_, _, err := h.Choose(ctx, account, 10, projections.EventPosition{})
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
			_, err := h.Rates(ctx, projections.RatesFilter{AccountID: testAccount, ToMillis: 1})
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
			_, err := h.Statement(ctx, projections.StatementFilter{AccountID: testAccount, Wallet: "G"}, 10,
				projections.StatementPosition{})
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
