package projections_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// damaged is a rig whose engine can be stopped and whose data folder can be damaged.
type damaged struct {
	*rig
	cfg   clickhouse.Config
	story *story
	stop  func() error

	folders map[string]string // of the tables' parts
}

const damagedEvents = 40

// newDamaged returns a history with several parts in each table.
func newDamaged(t *testing.T) *damaged {
	t.Helper()
	d := &damaged{story: newStory(1), cfg: clickhouse.Config{
		Program:  clickhousetest.Program(t),
		DataDir:  t.TempDir(),
		Database: "history",
		Service:  clickhouse.Login{User: "lumenhook", Password: "secret"},
		Logger:   slog.New(slog.DiscardHandler),
		Grants:   clickhousetest.Grants(),
	}}
	engine := d.start(t)
	d.rig = newRigOf(t, engine)
	d.logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	must(t, writer.Migrate(t.Context(), d.db))
	d.exec("SYSTEM STOP MERGES") // losing a part that was already merged is no loss
	run := d.project(func(c *writer.ProjectorConfig) { c.BlockWait = 300 * time.Millisecond })
	guard := d.guard(true)
	for first := 0; first < damagedEvents; first += 10 {
		var facts []domain.Fact
		for n := first; n < first+10; n++ {
			facts = append(facts, d.story.created(n), d.story.delivered(n, 1))
		}
		d.append(facts...)
		d.awaitProjected()
	}
	run.finish(t)
	// There must be enough small parts for ClickHouse to merge them as soon as it has loaded
	// them.
	for range 16 {
		for _, table := range []string{"events", "deliveries", "attempts"} {
			d.exec("INSERT INTO " + table + " SELECT * FROM " + table + " LIMIT 1")
		}
	}
	guard()
	must(t, d.readFolders())
	return d
}

func (d *damaged) start(t *testing.T) *clickhouse.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := clickhouse.Start(ctx, d.cfg)
	must(t, err)
	d.stop = e.Stop
	t.Cleanup(func() { _ = d.stop() })
	return e
}

// restart stops the engine, damages its folder, and starts it again.
func (d *damaged) restart(tear func(store string)) {
	d.t.Helper()
	must(d.t, d.stop())
	tear(filepath.Join(d.cfg.DataDir, "data"))
	d.engine = d.start(d.t.(*testing.T))
	d.dsn = d.engine.DSN()
	d.db = d.open(d.dsn)
	opts, err := driver.ParseDSN(d.dsn)
	must(d.t, err)
	d.sql, err = driver.Open(opts)
	must(d.t, err)
	d.t.Cleanup(func() { _ = d.sql.Close() })
}

func (r *rig) guard(heal bool) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = writer.Guard(ctx, writer.GuardConfig{RefoldConfig: r.refold(nil), Heal: heal})
	}()
	end = func() { cancel(); <-ended }
	r.t.Cleanup(end)
	return end
}

func (d *damaged) definition(data, table string) string {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(data, "store", "*", "*", table+".sql"))
	must(d.t, err)
	if len(found) != 1 {
		d.t.Fatalf("definitions of %s: %v", table, found)
	}
	return found[0]
}

func (d *damaged) readFolders() error {
	rows, err := d.sql.Query(d.t.Context(),
		"SELECT name, toString(uuid) FROM system.tables WHERE database = 'history'")
	if err != nil {
		return err
	}
	defer rows.Close()
	d.folders = make(map[string]string)
	for rows.Next() {
		var name, id string
		if err := rows.Scan(&name, &id); err != nil {
			return err
		}
		d.folders[name] = filepath.Join(d.cfg.DataDir, "data", "store", id[:3], id)
	}
	return rows.Err()
}

func (d *damaged) listed(h *history.History) (int, error) {
	page, _, err := h.Events(d.t.Context(), readmodel.EventFilter{AccountID: testAccount}, nil, 250)
	return len(page), err
}

// isWhole returns an error unless the history shows every event with its attempt.
func (d *damaged) isWhole(h *history.History) error {
	if n, err := d.listed(h); err != nil || n != damagedEvents {
		return fmt.Errorf("%d of %d events are listed: %w", n, damagedEvents, err)
	}
	for n := range damagedEvents {
		e, err := h.Event(d.t.Context(), testAccount, d.story.eventID(n))
		if err != nil || e.Behind || len(e.Attempts) != 1 {
			return fmt.Errorf("event %d: behind %t, %d attempts: %w", n, e.Behind, len(e.Attempts), err)
		}
	}
	return nil
}

func flip(t testing.TB, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	b[len(b)/2] ^= 4
	must(t, os.WriteFile(path, b, 0o600))
}

// eachPart calls tear for each part of a table, in name order.
func (d *damaged) eachPart(table string, tear func(i int, part string)) {
	d.t.Helper()
	parts, err := filepath.Glob(filepath.Join(d.folders[table], "*_*_*"))
	must(d.t, err)
	parts = slices.DeleteFunc(parts, func(p string) bool { return filepath.Ext(p) != "" })
	if len(parts) == 0 {
		d.t.Fatalf("%s has no parts", table)
	}
	for i, part := range parts {
		tear(i, part)
	}
}

// tears are kinds of damage to the data of a stopped engine.
var tears = map[string]struct {
	tear func(t *testing.T, d *damaged, data string)
	lost []string // tables whose damage is detected without checking all files
}{
	"a third of all data": {
		func(t *testing.T, d *damaged, data string) {
			files, err := filepath.Glob(filepath.Join(data, "store", "*", "*", "*", "data.bin"))
			must(t, err)
			for i, file := range files {
				if i%3 == 0 {
					must(t, os.Truncate(file, 7))
				}
			}
		}, nil,
	},
	"files of parts": {
		func(t *testing.T, d *damaged, _ string) {
			for table, tear := range map[string]func(part string) error{
				"attempts":   func(p string) error { return os.Truncate(filepath.Join(p, "data.bin"), 0) },
				"deliveries": func(p string) error { return os.Remove(filepath.Join(p, "data.cmrk4")) },
				"events": func(p string) error {
					return os.WriteFile(filepath.Join(p, "checksums.txt"), []byte("torn"), 0o600)
				},
				"schema_versions": func(p string) error { return os.Remove(filepath.Join(p, "count.txt")) },
			} {
				d.eachPart(table, func(i int, part string) {
					if i == 0 || table == "schema_versions" { // the parts of schema_versions are already merged
						must(t, tear(part))
					}
				})
			}
		}, []string{"attempts", "deliveries", "events", "schema_versions"},
	},
	"whole folders": {
		func(t *testing.T, d *damaged, _ string) {
			d.eachPart("attempts", func(_ int, part string) { must(t, os.RemoveAll(part)) })
			d.eachPart("events", func(i int, part string) {
				if i == 1 {
					must(t, os.RemoveAll(part))
				}
			})
			must(t, os.RemoveAll(d.folders["deliveries"]))
		}, []string{"attempts", "deliveries", "events"},
	},
	"progress": {
		func(t *testing.T, d *damaged, _ string) {
			d.eachPart("projection_progress", func(i int, part string) {
				if i%2 == 0 {
					must(t, os.Truncate(filepath.Join(part, "data.bin"), 7))
				} else {
					must(t, os.RemoveAll(part))
				}
			})
		}, []string{"projection_progress"},
	},
	"definitions": {
		func(t *testing.T, d *damaged, data string) {
			must(t, os.Truncate(d.definition(data, "events"), 20))
			must(t, os.Truncate(d.definition(data, "facts"), 0))
			must(t, os.Remove(d.definition(data, "attempts")))
			must(t, os.Remove(d.definition(data, "projection_progress")))
			must(t, os.Remove(d.definition(data, "current_deliveries")))
			must(t, os.WriteFile(filepath.Join(d.folders["deliveries"], "format_version.txt"), []byte("x"),
				0o600))
		}, nil,
	},
	"the database": {
		func(t *testing.T, d *damaged, data string) {
			must(t, os.Truncate(filepath.Join(data, "metadata", "history.sql"), 20))
		}, nil,
	},
	"bits": {
		func(t *testing.T, d *damaged, _ string) {
			for table, name := range map[string]string{
				"events": "data.bin", "deliveries": "primary.cidx", "projection_progress": "data.bin",
			} {
				d.eachPart(table, func(_ int, part string) { flip(t, filepath.Join(part, name)) })
			}
		}, nil,
	},
}

// Whatever is damaged in the folder of a stopped engine, no list may be incomplete without
// reporting it, no event may be missing, and eventually the history must be complete again.
func TestTornTablesAreNoticedAndRebuilt(t *testing.T) {
	for name, of := range tears {
		t.Run(name, func(t *testing.T) {
			if name != "files of parts" && name != "bits" {
				testkit.Nightly(t)
			}
			t.Parallel()
			d := newDamaged(t)
			d.restart(func(data string) { of.tear(t, d, data) })
			lost, err := d.db.Damage(t.Context())
			must(t, err)
			for _, table := range of.lost {
				if !slices.ContainsFunc(lost, func(l writer.Damage) bool { return l.Table == table }) {
					t.Errorf("%s is torn, and it is not among %v", table, lost)
				}
			}
			d.claimsNoMore(d.history(20 * time.Millisecond))
			d.project(nil)
			d.guard(true)
			h := d.history(0)
			testkit.EventuallyNil(t, "the history is whole again", func() error {
				if n, err := d.listed(h); err == nil && n != damagedEvents {
					t.Fatalf("%d of %d events are listed", n, damagedEvents)
				}
				return d.isWhole(h)
			})
			testkit.EventuallyNil(t, "nothing is damaged any more", func() error {
				if lost, err := d.db.Damage(t.Context()); err != nil || len(lost) > 0 {
					return fmt.Errorf("%v, %w", lost, err)
				}
				return nil
			})
			d.awaitProjected()
			found, err := writer.Verify(t.Context(), d.refold(nil))
			must(t, err)
			if len(found.Differences) > 0 || found.Rows["events"] != damagedEvents {
				t.Errorf("verified: %+v", found)
			}
			if n := d.count("SELECT count() FROM current_deliveries"); n != damagedEvents {
				t.Errorf("the view has %d deliveries", n)
			}
		})
	}
}

// A guard without permission to repair must not change the tables. The command that it reports
// repairs them.
func TestDamageIsReportedWhereNobodyHeals(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.restart(func(string) {
		d.eachPart("attempts", func(_ int, part string) { must(t, os.RemoveAll(part)) })
	})
	d.project(nil)
	d.guard(false)
	d.append(d.story.created(damagedEvents), d.story.delivered(damagedEvents, 1))
	d.awaitProjected() // a new part gets the number of a lost one
	lost, err := d.db.Damage(t.Context())
	must(t, err)
	if len(lost) != 1 || lost.Command() != "`lumenhook rebuild --table attempts`" {
		t.Fatalf("damaged: %v, %s", lost, lost.Command())
	}
	d.claimsNoMore(d.history(20 * time.Millisecond))
	must(t, writer.Rebuild(t.Context(), d.refold(func(c *writer.RefoldConfig) {
		c.Tables = []string{"attempts"}
	})))
	if n, err := d.listed(d.history(0)); err != nil || n != damagedEvents+1 {
		t.Errorf("%d events are listed after the rebuild, %v", n, err)
	}
}

// A power failure may lose all parts that ClickHouse has written since the parts were last
// recorded. The projector writes them again.
func TestPartsThatWereNotRecordedAreWrittenAgain(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	recorded := make(map[string]bool)
	d.eachPart("events", func(_ int, part string) { recorded[part] = true })
	run := d.project(nil)
	d.append(d.story.created(damagedEvents), d.story.delivered(damagedEvents, 1))
	d.awaitProjected()
	run.finish(t)
	removed := 0
	d.restart(func(string) {
		d.eachPart("events", func(_ int, part string) {
			if !recorded[part] {
				must(t, os.RemoveAll(part))
				removed++
			}
		})
	})
	d.project(nil)
	h := d.history(0)
	testkit.EventuallyNil(t, "the event is listed again", func() error {
		if n, err := d.listed(h); err != nil || n != damagedEvents+1 {
			return fmt.Errorf("%d events are listed: %w", n, err)
		}
		return nil
	})
	if removed == 0 {
		t.Error("no part was removed")
	}
}

// A part breaks while the history is read. Then the engine is killed and restarts in the same
// process.
func TestAPartThatBreaksWhileTheHistoryIsRead(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.project(nil)
	d.guard(true)
	h := d.history(0)
	testkit.EventuallyNil(t, "the history is read", func() error { return d.isWhole(h) })
	d.eachPart("events", func(i int, part string) {
		if i == 0 {
			must(t, os.Truncate(filepath.Join(part, "data.bin"), 7))
		}
	})
	broken := d.folders["events"]
	must(t, syscall.Kill(d.engine.PID(), syscall.SIGKILL))
	testkit.EventuallyNil(t, "the history is whole again, in another table", func() error {
		if n, err := d.listed(h); err == nil && n != damagedEvents {
			t.Fatalf("%d of %d events are listed", n, damagedEvents)
		}
		if err := errors.Join(d.engine.Ready(t.Context()), d.readFolders()); err != nil {
			return err
		}
		if d.folders["events"] == broken {
			return errors.New("events was not rebuilt")
		}
		return d.isWhole(h)
	})
}

// While parts are recorded and checked, tables are exchanged, as in a rebuild. The guard must not
// mistake the parts of one table for those of another.
func TestATableThatIsReplacedLostNothing(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	must(t, writer.Migrate(t.Context(), r.db))
	r.exec("SYSTEM STOP MERGES")
	r.exec("CREATE TABLE events_rebuild AS events")
	for _, table := range []string{"events", "events", "events", "events_rebuild"} {
		r.exec("INSERT INTO " + table + " (event_id) VALUES ('evt_1')")
	}
	exchanging, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && exchanging.Err() == nil {
			err = r.sql.Exec(t.Context(), "EXCHANGE TABLES events AND events_rebuild")
		}
		ended <- err
	}()
	for range 30 {
		r.guard(false)()
	}
	end()
	must(t, <-ended)
	if lost, err := r.db.Damage(t.Context()); err != nil || len(lost) > 0 {
		t.Errorf("lost: %+v, %v", lost, err)
	}
}

// claimsNoMore fails the test if a result is incomplete and does not report it.
func (d *damaged) claimsNoMore(h *history.History) {
	d.t.Helper()
	for n := range damagedEvents {
		e, err := h.Event(d.t.Context(), testAccount, d.story.eventID(n))
		if err == nil && !e.Behind && len(e.Attempts) != 1 || err != nil && !unknown(err) {
			d.t.Errorf("event %d: behind %t, %d attempts, %v", n, e.Behind, len(e.Attempts), err)
		}
	}
	if n, err := d.listed(h); err == nil && n != damagedEvents || err != nil && !unknown(err) {
		d.t.Errorf("%d of %d events are listed: %v", n, damagedEvents, err)
	}
}

// unknown reports whether an error means that the history may contain more.
func unknown(err error) bool {
	return strings.Contains(err.Error(), readmodel.ErrBehind.Error()) ||
		strings.Contains(err.Error(), readmodel.ErrUnavailable.Error())
}
