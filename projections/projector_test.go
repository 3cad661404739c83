package projections_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestFactsBecomeRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	answer := []byte("no\x00t UTF-8: \xff\xfe")
	created := s.created(1)
	r.append(
		domain.Fact{
			Aggregate: testAccount,
			Version:   1,
			AtMillis:  startMillis,
			Body:      domain.AccountCreated{AccountID: testAccount, Email: "a@example.com"},
		},
		s.fact(domain.EndpointCreated{
			EndpointID:       s.endpointID,
			AccountID:        testAccount,
			EndpointSettings: domain.EndpointSettings{URL: "https://example.com/"},
		}),
		created,
		s.refused(1, 1),
		s.attempted(1, 2, domain.StateFailed,
			domain.AttemptResult{
				SentAtMillis:   startMillis + 900,
				DurationMillis: 3,
				StatusCode:     500,
				ResponseBody:   answer,
			}),
		s.created(2),
		s.fact(domain.DeliveryCancelled{EventID: s.eventID(2)}),
		s.created(3),
		s.refused(3, 1),
	)
	r.project(nil)
	r.awaitProjected()

	record, err := r.history(0).Event(t.Context(), testAccount, s.eventID(1))
	must(t, err)
	if want := created.Body.(domain.DeliveryCreated).Event.Body; !bytes.Equal(record.Body, want) {
		t.Errorf("the body is %q, not %q", record.Body, want)
	}
	if record.EndpointID != s.endpointID || record.State != domain.StateFailed ||
		record.NextAttemptAtMillis != 0 || len(record.Attempts) != 2 {
		t.Fatalf("the record is %+v", record)
	}
	first, second := record.Attempts[0], record.Attempts[1]
	if first.Number != 1 || first.Run != 1 || first.Result.StatusCode != 0 ||
		first.Result.Error != domain.AttemptTimeout || first.Result.DurationMillis != 10_000 ||
		first.Result.ErrorDetail != "connect: timed out" || first.Result.SentAtMillis != startMillis+7 {
		t.Errorf("the first attempt is %+v", first)
	}
	if second.Number != 2 || second.Result.StatusCode != 500 || second.Result.Error != "" ||
		!bytes.Equal(second.Result.ResponseBody, answer) {
		t.Errorf("the second attempt is %+v", second)
	}
	cancelled, err := r.history(0).Event(t.Context(), testAccount, s.eventID(2))
	must(t, err)
	if cancelled.State != domain.StateCancelled || len(cancelled.Attempts) != 0 ||
		cancelled.NextAttemptAtMillis != 0 {
		t.Errorf("the cancelled record is %+v", cancelled)
	}
	waiting, err := r.history(0).Event(t.Context(), testAccount, s.eventID(3))
	must(t, err)
	if want := int64(startMillis + 3*7 + 30_000); waiting.State != domain.StateWaiting ||
		waiting.NextAttemptAtMillis != want {
		t.Errorf("the waiting record is %+v, and should be due at %d", waiting, want)
	}

	for query, want := range map[string]int{
		"SELECT count() FROM events FINAL": 3,
		"SELECT count() FROM events FINAL WHERE account_id = '" + testAccount +
			"' AND watch_id != '' AND wallet_address = 'GWALLET'": 3,
		"SELECT count() FROM attempts FINAL":                                                                                 3,
		"SELECT count() FROM attempt_outcomes WHERE error_detail = 'connect: timed out'":                                     2,
		"SELECT count() FROM attempts FINAL WHERE status_code IS NULL AND error = 'TIMEOUT' AND next_attempt_at IS NOT NULL": 2,
		"SELECT count() FROM deliveries FINAL":                                                                               3,
		"SELECT count() FROM deliveries FINAL WHERE state = 'FAILED' AND attempts = 2 AND run = 1":                           1,
		"SELECT count() FROM deliveries FINAL WHERE state = 'CANCELLED' AND attempts = 0 AND run = 1":                        1,
		"SELECT count() FROM deliveries FINAL WHERE state = 'WAITING' AND next_attempt_at IS NOT NULL":                       1,
		"SELECT count() FROM events FINAL WHERE topic = 'journal' AND partition >= 0 AND offset > 0 AND version > 0":         3,
	} {
		if got := r.count(query); got != want {
			t.Errorf("%s gives %d, not %d", query, got, want)
		}
	}
}

func TestMigrateMayBeRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	db := r.openOther("new")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := writer.Migrate(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	must(t, writer.Migrate(t.Context(), db))
	in := " FROM system.columns WHERE database = '" + db.Name() + "'" // includes the columns of views
	if n := r.count("SELECT count()" + in); n < 40 {
		t.Errorf("there are only %d columns", n)
	}
	if n := r.count("SELECT count()" + in + " AND comment = ''"); n != 0 {
		t.Errorf("%d columns have no comment", n)
	}
	n := r.count("SELECT count() FROM system.tables WHERE comment = '' AND database = '" + db.Name() + "'")
	if n != 0 {
		t.Errorf("%d tables have no comment", n)
	}
	r.exec("INSERT INTO " + db.Name() + ".schema_versions (version, name) VALUES (9999, '9999_future.sql')")
	if err := writer.Migrate(t.Context(), db); err == nil ||
		!strings.Contains(err.Error(), "9999_future.sql") {
		t.Errorf("a database from the future is met with %v", err)
	}
}

func TestClickHouseIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	run := r.project(func(c *writer.ProjectorConfig) { c.BlockRows = 50 })
	const events = 200
	rounds := testkit.Rounds(1, 3)
	stories := []*story{newStory(1), newStory(2), newStory(3), newStory(4), newStory(5)}
	for round := range rounds {
		for i := range events {
			n := round*events + i
			s := stories[n%len(stories)]
			r.append(s.created(n), s.refused(n, 1), s.delivered(n, 2))
			if i == events/2 {
				testkit.EventuallyNil(t, "something is written before the kill", func() error {
					if run.Status().Facts == 0 || run.Status().Err != nil {
						return fmt.Errorf("%+v", run.Status())
					}
					return nil
				})
				must(t, syscall.Kill(r.engine.PID(), syscall.SIGKILL))
			}
		}
		testkit.EventuallyNil(t, "the projector noticed", func() error {
			if restarts := r.engine.Restarts(); restarts <= int64(round) {
				return fmt.Errorf("the engine was started again %d times", restarts)
			}
			return nil
		})
	}
	must(t, r.engine.Ready(t.Context()))
	r.awaitProjected()
	testkit.EventuallyNil(t, "the projector is well", func() error { return run.Status().Err })
	for query, want := range map[string]int{
		"SELECT count() FROM events FINAL":                                                rounds * events,
		"SELECT count() FROM attempts FINAL":                                              2 * rounds * events,
		"SELECT count() FROM deliveries FINAL WHERE state = 'DELIVERED' AND attempts = 2": rounds * events,
	} {
		if got := r.count(query); got != want {
			t.Errorf("%s gives %d, not %d", query, got, want)
		}
	}
	if lag, err := run.Lag(t.Context()); err != nil || lag != 0 {
		t.Errorf("the lag is %d, %v", lag, err)
	}
}

// A hung server neither refuses connections nor answers.
func TestClickHouseHangs(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	run := r.project(nil)
	s := newStory(1)
	r.append(s.created(1))
	r.awaitProjected()
	pid := r.engine.PID()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	testkit.EventuallyNil(t, "every thread of ClickHouse is stopped",
		func() error { return allStopped(pid) })
	r.append(s.created(2))
	hasty := r.historyOf(r.db, time.Second, 200*time.Millisecond)
	_, err := hasty.Event(t.Context(), testAccount, s.eventID(2))
	isFault(t, err, readmodel.ErrUnavailable)
	run.stop()
	<-run.ended // ClickHouse still hangs
	must(t, run.err)
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	r.project(nil)
	r.awaitProjected()
	if n := r.count("SELECT count() FROM events FINAL"); n != 2 {
		t.Errorf("there are %d events, not 2", n)
	}
}

// allStopped returns nil when every thread of a process has received the stop signal.
func allStopped(pid int) error {
	if runtime.GOOS != "linux" {
		return nil // only Linux has /proc
	}
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
			return fmt.Errorf("%s is not stopped", name)
		}
	}
	return nil
}

func TestRepeatedFactsChangeNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stories := []*story{newStory(1), newStory(2), newStory(3)}
	for n := range 300 {
		s := stories[n%len(stories)]
		r.append(s.created(n), s.refused(n, 1), s.delivered(n, 2))
	}
	run := r.project(nil)
	r.awaitProjected()
	run.finish(t)
	want := r.checksum()
	read := func() string {
		var all strings.Builder
		for n := 0; n < 300; n += 11 {
			record, err := r.history(0).Event(t.Context(), testAccount, stories[n%len(stories)].eventID(n))
			must(t, err)
			fmt.Fprintf(&all, "%+v\n", record)
		}
		return all.String()
	}
	before := read()

	// After a crash between data and progress, the rows exist and the progress is older. Merges
	// are stopped so that the copies stay.
	for _, table := range []string{"events", "attempts", "deliveries"} {
		r.exec("SYSTEM STOP MERGES " + table)
	}
	r.exec("TRUNCATE TABLE projection_progress")
	again := r.project(func(c *writer.ProjectorConfig) { c.BlockRows = 37 })
	testkit.EventuallyNil(t, "the facts are written again", func() error {
		if facts := again.Status().Facts; facts < 300 {
			return fmt.Errorf("%d facts", facts)
		}
		return nil
	})
	if got := read(); got != before {
		t.Error("reading while facts are written again gives other answers")
	}
	r.awaitProjected()
	if copies := r.count("SELECT count() FROM attempts"); copies < 1200 {
		t.Fatalf("there are only %d rows in attempts: no copies to be tested", copies)
	}
	if got := read(); got != before {
		t.Error("reading after facts were written again gives other answers")
	}
	if got := r.checksum(); got != want {
		t.Errorf("the rows are %s, not %s", got, want)
	}
}

func TestLostTablesAreRebuilt(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	run := r.project(nil)
	s := newStory(1)
	for n := range 50 {
		r.append(s.created(n), s.delivered(n, 1))
	}
	r.awaitProjected()
	want := r.checksum()

	// The database is dropped while the projector runs, which notices at the next fact.
	r.exec("DROP DATABASE " + r.db.Name() + " SYNC")
	r.append(domain.Fact{
		Aggregate: s.endpointID,
		Version:   1000,
		Body:      domain.CommandHandled{CommandID: "cmd_x"},
	})
	// Ask the projector, because a session that begins in a database that does not exist would
	// crash this engine.
	testkit.EventuallyNil(t, "everything is written again", func() error {
		if facts := run.Status().Facts; facts < 201 {
			return fmt.Errorf("%d facts", facts)
		}
		return nil
	})
	r.awaitProjected()
	if got := r.checksum(); got != want {
		t.Errorf("the rows are %s, not %s", got, want)
	}

	// The tables are empty, as if another projector had recreated them. Continuing at this
	// projector's position would skip all earlier rows.
	for _, table := range append(writer.Tables(), "projection_progress") {
		r.exec("TRUNCATE TABLE " + table)
	}
	r.append(domain.Fact{
		Aggregate: s.endpointID,
		Version:   1001,
		Body:      domain.CommandHandled{CommandID: "cmd_y"},
	})
	r.awaitProjected()
	if got := r.checksum(); got != want {
		t.Errorf("the rows are %s, not %s", got, want)
	}
	testkit.EventuallyNil(t, "the projector is well", func() error { return run.Status().Err })
}

func TestProjectorsShareThePartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.project(nil), r.project(nil)
	testkit.EventuallyNil(t, "each has two partitions", func() error {
		a, b := one.Status().Partitions, two.Status().Partitions
		if len(a) != 2 || len(b) != 2 ||
			slices.ContainsFunc(a, func(p int32) bool { return slices.Contains(b, p) }) {
			return fmt.Errorf("%v and %v", a, b)
		}
		return nil
	})
	events := 0
	load := func() {
		for endpoint := range 12 {
			s := newStory(endpoint)
			s.version = uint64(events)
			r.append(s.created(events), s.delivered(events, 1))
			events++
		}
	}
	load()
	r.awaitProjected()
	// A block is in the tables before it is counted.
	testkit.EventuallyNil(t, "both projectors wrote", func() error {
		if a, b := one.Status().Facts, two.Status().Facts; a == 0 || b == 0 {
			return fmt.Errorf("%d and %d facts", a, b)
		}
		return nil
	})
	load()
	one.finish(t)
	load()
	r.awaitProjected()
	if owned := two.Status().Partitions; len(owned) != testPartitions {
		t.Errorf("the one that is left has %v", owned)
	}
	if n := r.count("SELECT count() FROM deliveries FINAL WHERE state = 'DELIVERED'"); n != events {
		t.Errorf("there are %d delivered deliveries, not %d", n, events)
	}
}

func TestUndecodableFactStopsTheProjector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	r.append(s.created(1))
	must(t,
		r.producer.Append(t.Context(),
			kafka.NewRecord(schemas.TopicJournal, s.endpointID, []byte("?"),
				schemas.Message{Type: "FromTheFuture", Version: "1"}.EachHeader)))
	run := r.project(nil)
	select {
	case <-run.ended:
	case <-time.After(eventualMax):
		t.Fatal("the projector did not stop")
	}
	if run.err == nil || !strings.Contains(run.err.Error(), "FromTheFuture") ||
		!strings.Contains(run.err.Error(), "offset 1 of journal/") {
		t.Errorf("the projector stopped with %v", run.err)
	}
	if !errors.Is(run.Status().Err, run.err) {
		t.Errorf("its health says %v", run.Status().Err)
	}
	if n := r.count("SELECT count() FROM events"); n != 1 {
		t.Errorf("%d events before the fact were written, not 1", n)
	}
}

func TestJournalThatIsNotTheHistorysStopsTheProjector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, writer.Migrate(t.Context(), r.db))
	r.exec("INSERT INTO projection_progress (generation, topic, partition, next_offset) SELECT uuid, 'journal', 2, 77 FROM system.tables WHERE database = currentDatabase()")
	run := r.project(nil)
	select {
	case <-run.ended:
	case <-time.After(eventualMax):
		t.Fatal("the projector did not stop")
	}
	if run.err == nil ||
		!strings.Contains(run.err.Error(), "journal/2 ends at offset 0, and the history has it to 77") {
		t.Errorf("the projector stopped with %v", run.err)
	}
}

// While ClickHouse is unavailable, a projector buffers nothing and can stop at once.
func TestClickHouseIsAwayFromTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	away := r.open("clickhouse://127.0.0.1:1/lumenhook")
	var restarts atomic.Int64
	run := r.project(func(c *writer.ProjectorConfig) {
		c.DB, c.OnRestart = away, func() { restarts.Add(1) }
	})
	s := newStory(1)
	r.append(s.created(1), s.delivered(1, 1))
	testkit.EventuallyNil(t, "the projector says what is wrong", func() error {
		if err := run.Status().Err; err == nil || !strings.Contains(err.Error(), "refused") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	if lag, err := run.Lag(t.Context()); err != nil || lag != 2 {
		t.Errorf("the lag is %d, %v", lag, err)
	}
	history := history.New(history.Config{DB: away, Ends: r.journalEnds})
	_, err := history.Event(t.Context(), testAccount, s.eventID(1))
	isFault(t, err, readmodel.ErrUnavailable)
	testkit.Eventually(t, "restarts are counted", func() bool { return restarts.Load() >= 2 })
	run.finish(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = history.Event(ended, testAccount, s.eventID(1))
	isFault(t, err, context.Canceled)
}
