package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/projections/history"
)

func (s *testService) command(args ...string) (stdout, stderr string, err error) {
	c := program(append(args, "--data-dir", s.dir)...)
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	err = c.Run()
	return out.String(), errors.String(), err
}

func (s *testService) must(args ...string) string {
	s.t.Helper()
	out, stderr, err := s.command(args...)
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, stderr)
	}
	return out
}

func (s *testService) refused(want string, args ...string) {
	s.t.Helper()
	if _, stderr, err := s.command(args...); err == nil || !strings.Contains(stderr, want) {
		s.t.Errorf("%v: it should be refused with %q, and said (%v) %s", args, want, err, stderr)
	}
}

var question = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestAskingARunningService runs the subcommands that read topics and history.
func TestAskingARunningService(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--egress-ports", "1024-65535", "--ledger-interval", "200ms", "--demo-interval", "200ms",
		"--balance-moves")
	s.eventually("three delivered events", func() bool {
		out, _, err := s.command("sql", "--format", "csv",
			"SELECT count() >= 3 FROM current_deliveries WHERE state = 'DELIVERED'")
		return err == nil && strings.HasSuffix(out, "\n1\n")
	})

	// Every question in the documentation must have an answer.
	doc, err := os.ReadFile("../../docs/analytics.md")
	if err != nil {
		t.Fatal(err)
	}
	questions := question.FindAllStringSubmatch(string(doc), -1)
	if len(questions) != 21 {
		t.Errorf("docs/analytics.md has %d questions, not 21", len(questions))
	}
	console := s.console()
	for i, q := range questions {
		answer, err := console.Query(t.Context(), q[1])
		if err != nil {
			t.Errorf("question %d: %v", i+1, err)
		}
		// These have no rows if nothing fails.
		quiet := map[int]bool{3: true, 7: true, 11: true, 12: true, 15: true, 18: true, 19: true}
		if len(answer.Rows) == 0 && !quiet[i+1] {
			t.Errorf("question %d has no answer", i+1)
		}
	}

	var row struct {
		EventID   string  `json:"event_id"`
		Amount    string  `json:"amount"`
		CreatedAt string  `json:"created_at"`
		Nothing   *string `json:"nothing"`
		N         int     `json:"n"`
	}
	out := s.must("sql", "--format", "json",
		"SELECT event_id, amount, created_at, NULL AS nothing, 7 AS n FROM events FINAL ORDER BY created_at LIMIT 1;")
	if err := json.Unmarshal([]byte(out), &row); err != nil ||
		!strings.HasPrefix(row.EventID, "evt_") || row.Nothing != nil || row.N != 7 {
		t.Errorf("%s: %+v, %v", out, row, err)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", row.CreatedAt); err != nil {
		t.Errorf("created_at: %v", err)
	}
	out = s.must("sql", "SELECT number, 'a\tb' AS text FROM numbers(2)")
	if out != "number  text\n────────────\n     0  a·b\n     1  a·b\n(2 rows)\n" {
		t.Errorf("a table is\n%s", out)
	}
	if out := s.must("sql", "--format", "parquet", "SELECT event_id FROM events"); !strings.HasPrefix(
		out, "PAR1") || !strings.HasSuffix(out, "PAR1") {
		t.Errorf("a Parquet file is %q", out)
	}
	s.refused("evt_idd", "sql", "--format", "parquet", "SELECT evt_idd FROM events")
	out = s.must("sql", "--format", "csv", "SELECT body_sha256 FROM attempts FINAL LIMIT 1")
	if hash := strings.TrimPrefix(out, "body_sha256\n"); len(hash) != 65 {
		t.Errorf("a hash is %q", out)
	}
	if out := s.must("sql", "SHOW CREATE TABLE attempts"); !strings.Contains(out, "\n    `event_id`") {
		t.Errorf("a table's definition is\n%s", out)
	}
	if out := s.must("sql", "KILL QUERY WHERE query_id = 'of nobody'"); out != "\n\n(0 rows)\n" {
		t.Errorf("stopping no query says %q", out)
	}
	s.refused("read-only", "sql", "DROP TABLE events")
	s.refused("read-only", "sql", "INSERT INTO events (event_id) VALUES ('evt_x')")
	s.refused("read-only", "sql", "SELECT 1 SETTINGS readonly = 0")
	s.refused("read-only", "sql", "SELECT 1 SETTINGS max_execution_time = 0")
	s.refused("event_idd", "sql", "SELECT event_idd FROM events")
	s.refused("--format", "sql", "--format", "xml", "SELECT 1")
	s.refused("--timeout", "sql", "--timeout", "1s",
		"SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1")
	if out, stderr, err := s.command("sql", "--max-rows", "5", "--format", "csv",
		"SELECT number FROM numbers(100000)"); err != nil || strings.Count(out, "\n") != 6 ||
		!strings.Contains(stderr, "only the first 5 rows") {
		t.Errorf("five rows are %q, %q, %v", out, stderr, err)
	}

	s.topics(row.EventID)
	if out, progress, err := s.command("devnet", "load", "--payments", "20", "--rate", "50",
		"--watches", "6", "--fail-ratio", "1"); err != nil ||
		!strings.Contains(progress, "20 of 20 payments") ||
		out != "made 20 payments, received 20 webhooks and refused 20 of them\n" {
		t.Errorf("load said %q and %q (%v)", out, progress, err)
	}
	if out := s.must("sql", "--format", "csv", "SELECT uniqExact(w.endpoint_id), "+
		"uniqExact(e.asset_code) FROM events AS e FINAL INNER JOIN (SELECT * FROM watches FINAL) AS w ON w.watch_id = e.watch_id"+
		" WHERE w.label LIKE 'till %'"); !strings.HasSuffix(out, "\n2,2\n") {
		t.Errorf("the load's endpoints and assets are %q", out)
	}
	if out := s.must("rebuild", "--all"); out != "rebuilt all tables\n" {
		t.Errorf("rebuild said %q", out)
	}
	if out := s.must("verify-projection", "--all"); !strings.Contains(out,
		"the history matches the topics") {
		t.Errorf("verify-projection said %q", out)
	}
	s.refused("--all or --table", "rebuild")
	s.refused(`--table "event": must be one of`, "rebuild", "--table", "event")
	s.must("migrate", "--history-retention", "90d")
	s.refused("at least", "migrate", "--history-retention", "1d")
	s.interrupt()
	s.refused("has been stopped: start it again with `lumenhook run --data-dir "+s.dir, "sql",
		"SELECT 1")
}

func (s *testService) console() *history.Console {
	s.t.Helper()
	t := config.Service{DataDir: s.dir}
	dsn, err := t.ReaderDSN()
	if err != nil {
		s.t.Fatal(err)
	}
	console, err := history.OpenConsole(s.t.Context(),
		history.ConsoleConfig{DSN: dsn, RowsMax: 1000, TimeMax: 20 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = console.Close() })
	return console
}

func (s *testService) topics(eventID string) {
	s.t.Helper()
	type line struct {
		Topic, Key, Type, Time string
		Offset                 int64
		Value                  map[string]any
	}
	read := func(args ...string) (lines []line) {
		s.t.Helper()
		for text := range strings.Lines(s.must(append([]string{"topics"}, args...)...)) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				s.t.Fatalf("%v: %s: %v", args, text, err)
			}
			lines = append(lines, l)
		}
		return lines
	}
	made := read("cat", "journal", "--type", "AttemptMade")
	if len(made) < 3 || made[0].Value["eventId"] == nil ||
		made[0].Value["meta"].(map[string]any)["version"] == nil {
		s.t.Fatalf("the attempts are %+v", made)
	}
	keyed := read("cat", "journal", "--type", "AttemptMade", "--key", made[0].Key, "--limit", "2")
	if len(keyed) != 2 || keyed[0].Key != made[0].Key {
		s.t.Errorf("by key there are %+v", keyed)
	}
	if old := read("cat", "journal", "--from", "1h"); len(old) == 0 {
		s.t.Error("there is nothing of the last hour")
	}
	if none := read("cat", "lumenhook.payments", "--from", "2099-01-01T00:00:00Z"); len(none) != 0 {
		s.t.Errorf("of the future there is %+v", none)
	}
	created := read("cat", "journal", "--type", "DeliveryCreated", "--limit", "1")
	body := created[0].Value["event"].(map[string]any)["body"].(map[string]any)
	if body["apiVersion"] == nil {
		s.t.Errorf("the envelope is %v", body)
	}
	if followed := read("tail", "payments", "--limit", "1"); len(followed) != 1 ||
		followed[0].Type != "PaymentObserved" {
		s.t.Errorf("followed: %+v", followed)
	}
	s.refused("the topics are", "topics", "cat", "jurnal")
	s.refused("--from", "topics", "cat", "journal", "--from", "yesterday")
	s.refused("has the partitions 0 to 3", "topics", "cat", "journal", "--partition", "9")
}
