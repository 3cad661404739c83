package clickhouse_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
)

// endlessQuery never ends and sends nothing.
const endlessQuery = "SELECT count() FROM numbers(1000000000000000) WHERE sipHash64(number) = 1"

// endlessJoin reads its first rows and then computes for minutes.
const endlessJoin = "SELECT count() FROM numbers(1000000000000000) AS a " +
	"CROSS JOIN numbers(1000000) AS b WHERE sipHash64(a.number, b.number) = 1"

func (s *strict) running(who clickhouse.Login) string {
	s.t.Helper()
	return strings.TrimSpace(s.must(who, "SELECT count() FROM system.processes WHERE "+
		"query LIKE 'SELECT count() FROM numbers%'"))
}

func (s *strict) awaitRunning(want string) {
	s.t.Helper()
	testkit.Eventually(s.t, want+" endless queries run", func() bool {
		return s.running(s.Service()) == want
	})
}

// beginHTTP starts an endless query over HTTP. The client disconnects when ctx ends. The returned
// channel delivers the status code of the response, or 0 if there was none.
func (s *strict) beginHTTP(ctx context.Context, query string) chan int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.HTTPURL(),
		strings.NewReader(query))
	must(s.t, err)
	req.SetBasicAuth(s.Reader().User, s.Reader().Password)
	answered := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	return answered
}

// If a client disconnects, its query must stop on the server, over both protocols. Otherwise the
// query would use the machine for minutes and keep the disk space of dropped tables that it
// reads.
func TestAReadersQueryEndsWithItsClient(t *testing.T) {
	t.Parallel()
	s := startStrict(t)
	pid := s.PID()
	ctx, leave := context.WithCancel(t.Context())
	first, second := s.beginHTTP(ctx, endlessQuery), s.beginHTTP(ctx, endlessJoin)
	s.awaitRunning("2")
	leave()
	<-first
	<-second
	s.awaitRunning("0")

	// A killed client closes its connection without canceling anything.
	sockets := []net.Conn{s.beginNative(endlessQuery), s.beginNative(endlessJoin)}
	s.awaitRunning("2")
	for _, socket := range sockets {
		must(t, socket.Close())
	}
	s.awaitRunning("0")
	if s.PID() != pid {
		t.Errorf("process %d has become %d", pid, s.PID())
	}
}

// A reader can see and stop only its own queries. The service also sees the reader's queries, but
// not the query that keeps the server running.
func TestQueriesAreStoppedByTheirUser(t *testing.T) {
	t.Parallel()
	s := startStrict(t)
	pid := s.PID()
	users := "SELECT DISTINCT user FROM system.processes ORDER BY user FORMAT TSV"
	answered := s.beginHTTP(t.Context(), endlessQuery)
	s.awaitRunning("1")
	if seen := s.must(s.Reader(), users); seen != s.Reader().User+"\n" {
		t.Errorf("a reader sees queries of %q", seen)
	}
	if seen := s.must(s.Service(), users); seen != "lumenhook\nreader\n" {
		t.Errorf("the service sees queries of %q", seen)
	}
	s.must(s.Reader(), "KILL QUERY WHERE query LIKE 'SELECT count() FROM numbers%' SYNC")
	if code := <-answered; code == http.StatusOK {
		t.Error("a query that was stopped has an answer")
	}
	answered = s.beginHTTP(t.Context(), endlessQuery)
	s.awaitRunning("1")
	s.ask(s.Service(), "KILL QUERY WHERE user != 'lumenhook' SYNC")
	<-answered
	s.awaitRunning("0")
	if s.PID() != pid || s.Restarts() != 0 {
		t.Errorf("stopping every query ended process %d", pid)
	}
}

func TestAReadersQueriesAreBounded(t *testing.T) {
	t.Parallel()
	const tooMany, constraint = 202, codeConstraintViolation
	s := startStrict(t)
	settings := s.must(s.Reader(), "SELECT name, value FROM system.settings WHERE name IN ("+
		"'max_execution_time', 'max_concurrent_queries_for_user', 'max_memory_usage_for_user') "+
		"ORDER BY name FORMAT TSV")
	if settings != "max_concurrent_queries_for_user\t16\nmax_execution_time\t60\n"+
		"max_memory_usage_for_user\t1073741824\n" {
		t.Errorf("the bounds are\n%s", settings)
	}
	for setting, want := range map[string]int{
		"max_execution_time = 600":                         0,
		"max_execution_time = 611":                         constraint,
		"max_execution_time = 0":                           constraint,
		"max_memory_usage_for_user = 0":                    codeReadonly,
		"max_concurrent_queries_for_user = 0":              codeReadonly,
		"cancel_http_readonly_queries_on_client_close = 0": codeReadonly,
	} {
		if code, answer := s.ask(s.Reader(), "SELECT 1 SETTINGS "+setting); code != want {
			t.Errorf("%s is answered %d: %s", setting, code, answer)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range 16 {
		s.beginHTTP(ctx, endlessQuery)
	}
	s.awaitRunning("16")
	if code, answer := s.ask(s.Reader(), "SELECT 1"); code != tooMany {
		t.Errorf("the seventeenth query is answered %d: %s", code, answer)
	}
	s.must(s.Service(), "SELECT 1") // a reader's queries must never keep the service out
}

// An operator's own ClickHouse, which uses the file from the Compose setup, must have the same
// limits for a reader.
func TestComposeBoundsAReaderAlike(t *testing.T) {
	t.Parallel()
	s := startStrict(t)
	text, err := os.ReadFile("../../../deploy/compose/clickhouse/reader.xml")
	must(t, err)
	profile, _, _ := strings.Cut(string(text), "<constraints>")
	limits := regexp.MustCompile(`<((?:max|cancel)_\w+)>(\d+)</`).FindAllStringSubmatch(profile, -1)
	if len(limits) != 5 {
		t.Errorf("reader.xml has %d limits", len(limits))
	}
	for _, limit := range limits {
		ours := s.must(s.Reader(), "SELECT value FROM system.settings WHERE name = '"+limit[1]+"'")
		if ours != limit[2]+"\n" {
			t.Errorf("%s is %s in reader.xml, and %s here", limit[1], limit[2], ours)
		}
	}
	for _, limit := range []string{
		"<max_execution_time><min>1</min><max>610</max></max_execution_time>",
		"<max_memory_usage><min>1</min><max>1073741824</max></max_memory_usage>",
	} {
		if !strings.Contains(string(text), limit) {
			t.Errorf("reader.xml lacks %s", limit)
		}
	}
}

func TestAnAccountsReaderSeesItsRowsOnly(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/compose/clickhouse/account.xml")
	must(t, err)
	hash := sha256.Sum256([]byte("secret"))
	users := strings.NewReplacer("acc_…", "acc_a", "HASH", hex.EncodeToString(hash[:]),
		"<networks><ip>::/0</ip></networks>", "<networks><ip>127.0.0.0/8</ip></networks>")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "users.d"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "users.d", "shop.xml"),
		[]byte(users.Replace(string(text))), 0o600))
	s := &strict{t: t, Engine: clickhousetest.StartWith(t,
		clickhouse.Config{Program: clickhousetest.Program(t), DataDir: dir})}
	for _, m := range schemas.ClickHouseMigrations() {
		for _, statement := range m.Statements {
			s.must(s.Service(), strings.ReplaceAll(statement, "{database:Identifier}", "lumenhook"))
		}
	}
	for _, who := range []string{"a", "b"} {
		for _, row := range []string{
			"endpoints (endpoint_id, account_id, status) VALUES ('ep_?', 'acc_?', 'active')",
			"watches (watch_id, account_id, endpoint_id, wallet_address) " +
				"VALUES ('wat_?', 'acc_?', 'ep_?', 'G?')",
			"payments (payment_id, to_address) VALUES ('?', 'G?')",
			"events (event_id, account_id, endpoint_id, watch_id, ledger_closed_at) " +
				"VALUES ('evt_?', 'acc_?', 'ep_?', 'wat_?', now())",
			"deliveries (event_id, account_id, endpoint_id) VALUES ('evt_?', 'acc_?', 'ep_?')",
			"attempts (event_id, endpoint_id, number, state) VALUES ('evt_?', 'ep_?', 1, 'DELIVERED')",
			"attempts (event_id, endpoint_id, number, state) VALUES ('evt_?', 'ep_?', 2, 'FAILED')",
			"endpoint_changes (endpoint_id) VALUES ('ep_?')",
		} {
			s.must(s.Service(), "INSERT INTO lumenhook."+strings.ReplaceAll(row, "?", who))
		}
	}
	shop := clickhouse.Login{User: "shop", Password: "secret"}
	grants := regexp.MustCompile(`SELECT ON lumenhook\.(\w+)<`)
	granted := grants.FindAllStringSubmatch(string(text), -1)
	if len(granted) != 14 {
		t.Errorf("there are %d tables and views", len(granted))
	}
	for _, table := range granted {
		name, column := table[1], "endpoint_id"
		switch name {
		case "payments":
			column = "to_address"
		case "payments_per_watch":
			column = "watch_id"
		case "retry_ladder":
			column = "attempts"
		}
		seen := s.must(shop, "SELECT DISTINCT "+column+" FROM lumenhook."+name)
		all := s.must(s.Reader(), "SELECT DISTINCT "+column+" FROM lumenhook."+name)
		if seen == "" || seen == all || strings.Contains(seen, "_b") || strings.Contains(seen, "Gb") {
			t.Errorf("%s: the account sees %q of %q", name, seen, all)
		}
	}
	if code, answer := s.ask(shop, "SELECT * FROM lumenhook.facts"); code != codeAccessDenied {
		t.Errorf("facts is answered %d: %s", code, answer)
	}
}

func (s *strict) beginNative(query string) net.Conn {
	s.t.Helper()
	opts, err := driver.ParseDSN(s.ReaderDSN())
	must(s.t, err)
	sockets := make(chan net.Conn, 1)
	opts.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
		socket, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		sockets <- socket
		return socket, err
	}
	conn, err := driver.Open(opts)
	must(s.t, err)
	go func() {
		defer conn.Close()
		_ = conn.Exec(context.WithoutCancel(s.t.Context()), query)
	}()
	return <-sockets
}
