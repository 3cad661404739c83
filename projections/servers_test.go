package projections_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"syscall"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// twoServers returns two independent engines with the same logins, and a DSN that names both.
func twoServers(t *testing.T) (first, second *clickhouse.Engine, dsn string) {
	t.Helper()
	cfg := clickhouse.Config{
		Program: clickhousetest.Program(t),
		DataDir: t.TempDir(),
		Grants:  clickhousetest.Grants(),
		Logger:  slog.New(slog.DiscardHandler),
		Service: clickhouse.Login{User: "lumenhook", Password: "of-both"},
	}
	first = clickhousetest.StartWith(t, cfg)
	cfg.DataDir = t.TempDir()
	second = clickhousetest.StartWith(t, cfg)
	u, err := url.Parse(first.DSN())
	must(t, err)
	u.Host += "," + second.NativeAddr()
	return first, second, u.String()
}

// killServer kills a running engine, which its supervisor then restarts.
func killServer(t *testing.T, e *clickhouse.Engine) {
	t.Helper()
	must(t, e.Ready(t.Context()))
	killed := e.PID()
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	// The engine reports that it is ready until it notices that its server died.
	testkit.EventuallyNil(t, "the server has died", func() error {
		if e.PID() == killed {
			return fmt.Errorf("%d lives", killed)
		}
		return nil
	})
}

func connect(t *testing.T, e *clickhouse.Engine) driver.Conn {
	t.Helper()
	opts, err := driver.ParseDSN(e.DSN())
	must(t, err)
	conn, err := driver.Open(opts)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	return conn
}

// sameTables creates the tables of the first server on the second, with the same UUIDs, as on
// replicas. Only the projector's own checks can tell them apart.
func (r *rig) sameTables(second driver.Conn) {
	r.t.Helper()
	must(r.t, writer.Migrate(r.t.Context(), r.db))
	for _, table := range append(writer.Tables(), "projection_progress", "schema_versions") {
		var create string
		must(r.t,
			r.sql.QueryRow(r.t.Context(),
				"SHOW CREATE TABLE "+table+" SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 1").Scan(
				&create,
			))
		must(r.t, second.Exec(r.t.Context(), create))
	}
}

// A projector whose DSN names two servers writes to one of them, and to the other when the first
// dies. The progress of each server must be correct for its own tables. Once complete, each must
// have every row once and agree with the topics.
func TestEachServerIsExactWhileTheProjectorMovesBetweenThem(t *testing.T) {
	t.Parallel()
	first, second, dsn := twoServers(t)
	r := newRigOf(t, first)
	both := r.open(dsn)
	r.sameTables(connect(t, second))
	r.world(5)
	run := r.project(func(cfg *writer.ProjectorConfig) { cfg.DB, cfg.BlockRows = both, 200 })
	stop := r.load()
	for n := range testkit.Rounds(3, 8) {
		facts := run.Status().Facts
		testkit.EventuallyNil(t, "the projector writes on", func() error {
			if now := run.Status(); now.Facts < facts+300 {
				return fmt.Errorf("it wrote %d facts: %w", now.Facts-facts, now.Err)
			}
			return nil
		})
		killServer(t, []*clickhouse.Engine{first, second}[n%2])
	}
	events := stop()

	// Keep the projectors running until everything is compared, because libchdb may crash when
	// they stop.
	var sums []string
	for _, e := range []*clickhouse.Engine{first, second} {
		must(t, e.Ready(t.Context()))
		alone := *r
		alone.engine, alone.db, alone.sql = e, r.open(e.DSN()), connect(t, e)
		if n := alone.count("SELECT count() FROM projection_progress"); n == 0 {
			t.Errorf("nothing was written to %s", e.NativeAddr())
		}
		alone.project(func(cfg *writer.ProjectorConfig) { cfg.Group = "of-" + e.NativeAddr() })
		alone.awaitProjected()
		if n := alone.count("SELECT count() FROM deliveries FINAL WHERE attempts = 2"); n != events {
			t.Errorf("%s has %d deliveries, not %d", e.NativeAddr(), n, events)
		}
		found, err := writer.Verify(t.Context(), alone.refold(nil))
		must(t, err)
		if len(found.Differences) > 0 {
			t.Errorf("on %s it found %+v", e.NativeAddr(), found.Differences)
		}
		sums = append(sums, alone.checksum())
	}
	if sums[0] != sums[1] {
		t.Errorf("the servers hold\n%s\nand\n%s", sums[0], sums[1])
	}
}

// If one of two servers with the history dies, all queries still work: for an event, for a list,
// and users' own. Rows missing on one server must not be judged by the other's progress.
func TestTheHistoryIsReadFromTheServerThatIsThere(t *testing.T) {
	t.Parallel()
	first, second, dsn := twoServers(t)
	r := newRigOf(t, first)
	s := newStory(1)
	for n := range 40 {
		r.append(s.created(n), s.delivered(n, 1))
	}
	for _, e := range []*clickhouse.Engine{first, second} {
		alone := *r
		alone.db = r.open(e.DSN())
		alone.project(func(cfg *writer.ProjectorConfig) { cfg.Group = "of-" + e.NativeAddr() })
		alone.awaitProjected()
	}
	reader := r.historyOf(r.open(dsn), eventualMax, readMax)
	read := func() error {
		record, err := reader.Event(t.Context(), testAccount, s.eventID(39))
		if err == nil && (record.State != domain.StateDelivered || len(record.Attempts) != 1) {
			err = fmt.Errorf("the event is %+v", record)
		}
		page, _, listed := reader.Events(t.Context(), readmodel.EventFilter{AccountID: testAccount},
			nil, 250)
		if listed == nil && len(page) != 40 {
			listed = fmt.Errorf("a list has %d events", len(page))
		}
		return errors.Join(err, listed)
	}
	must(t, read())
	must(t, first.Stop())
	must(t, read())
	console, err := history.OpenConsole(t.Context(),
		history.ConsoleConfig{DSN: dsn, RowsMax: 10, TimeMax: readMax})
	must(t, err)
	answer, err := console.Query(t.Context(), "SELECT count() FROM events FINAL")
	must(t, err)
	if len(answer.Rows) != 1 || fmt.Sprint(answer.Rows[0][0]) != "40" {
		t.Errorf("a person is told %v", answer.Rows)
	}
	must(t, console.Close())
	must(t, second.Stop())
	if err := read(); !errors.Is(err, readmodel.ErrUnavailable) {
		t.Errorf("without any server it says %v", err)
	}
}
