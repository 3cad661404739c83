package writer

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

func TestMain(m *testing.M) {
	clickhouse.MaybeChild()
	os.Exit(clickhousetest.Sharing(m).Run())
}

// A failing rebuild is retried at increasing intervals, with one log line for the damage and one
// for the failure.
func TestARebuildThatFailsIsTriedLessOften(t *testing.T) {
	ctx := t.Context()
	db, err := Open(clickhousetest.Database(t))
	if err == nil {
		defer db.Close()
		err = Migrate(ctx, db)
	}
	if err != nil {
		t.Fatal(err)
	}
	generations, err := db.generations(ctx)
	if err == nil {
		err = db.mark(ctx, "events", generations["events"])
	}
	if err == nil { // a rebuild refuses the tables of a newer version
		err = db.exec(ctx, "INSERT INTO {database:Identifier}.schema_versions (version, name) "+
			"VALUES (60000, 'newer')", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	var log testkit.Buffer
	g := newGuard(GuardConfig{Heal: true, RefoldConfig: RefoldConfig{
		DB: db, Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}})
	tries := 0
	for range 10 * time.Minute / guardEvery {
		before := g.healAt
		g.checkParts(ctx)
		if g.healAt != before {
			tries++
		}
		now = now.Add(guardEvery)
	}
	if tries < 4 || tries > 15 {
		t.Errorf("%d rebuilds in ten minutes", tries)
	}
	if strings.Count(log.String(), "\n") != 2 || !strings.Contains(log.String(), "newer lumenhook") {
		t.Errorf("logged:\n%s", log.String())
	}
}
