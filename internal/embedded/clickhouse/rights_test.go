package clickhouse_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// ClickHouse's error codes for missing privileges.
const (
	codeReadonly            = 164
	codeConstraintViolation = 452
	codeAccessDenied        = 497
	codeAuthentication      = 516
	codeSessionLimit        = 700
)

// strict is an engine with only the product's privileges. It has a file, a folder and a server
// that none of its users may access.
type strict struct {
	*clickhouse.Engine
	t       *testing.T
	outside string
	url     string
	came    *atomic.Int64 // connections to url
}

const (
	guardedText = "what-nobody-may-read"
	ours        = "`lumenhook`.rows"
)

func startStrict(t *testing.T) *strict {
	t.Helper()
	s := &strict{t: t, outside: t.TempDir(), came: new(atomic.Int64)}
	must(t, os.WriteFile(filepath.Join(s.outside, "secret"), []byte(guardedText+"\n"), 0o600))
	handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, guardedText) }
	server := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.came.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	s.Engine = clickhousetest.StartWith(t,
		clickhouse.Config{Program: clickhousetest.Program(t), DataDir: t.TempDir()})
	s.must(s.Service(), "CREATE TABLE "+ours+" (n UInt64, text String) ENGINE = MergeTree ORDER BY n")
	s.must(s.Service(), "INSERT INTO "+ours+" SELECT 1, 'one'")
	return s
}

// ask executes a statement over HTTP. It returns the response and ClickHouse's error code, which
// is 0 if the statement succeeded.
func (s *strict) ask(who clickhouse.Login, statement string) (code int, answer string) {
	s.t.Helper()
	return s.send(who, http.MethodPost, "/?wait_end_of_query=1", statement)
}

func (s *strict) send(
	who clickhouse.Login, method, path, statement string,
) (code int, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.HTTPURL()+path,
		strings.NewReader(statement))
	must(s.t, err)
	if who.User != "" {
		req.SetBasicAuth(who.User, who.Password)
	}
	// No keep-alive, because the engine may have been restarted. The response to a rejected login
	// may be lost with the connection or the engine.
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	resp, err := client.Do(req)
	if method == http.MethodGet && err != nil {
		testkit.Eventually(s.t, "the engine answers", func() bool {
			resp, err = client.Do(req)
			return err == nil
		})
	}
	if err != nil {
		s.t.Fatalf("%s: %s: %v", who, statement, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	if text := resp.Header.Get("X-ClickHouse-Exception-Code"); text != "" {
		code, err = strconv.Atoi(text)
		must(s.t, err)
	} else if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s without a code", statement, resp.Status)
	}
	return code, string(text)
}

func (s *strict) must(who clickhouse.Login, statement string) string {
	s.t.Helper()
	code, answer := s.ask(who, statement)
	if code != 0 {
		s.t.Fatalf("%s: %s: %s", who, statement, answer)
	}
	return answer
}

func (s *strict) list(query string) []string {
	s.t.Helper()
	return strings.Fields(s.must(s.Service(), query+" FORMAT TSVRaw"))
}

// refused checks that a statement is rejected for missing privileges, and not for a wrong
// argument that could be corrected.
func (s *strict) refused(statement string, codes ...int) {
	s.t.Helper()
	for _, who := range []clickhouse.Login{s.Service(), s.Reader()} {
		code, answer := s.ask(who, statement)
		if !slices.Contains(append(codes, codeAccessDenied, codeReadonly), code) {
			s.t.Errorf("%s: %s\n\tis answered %d: %s", who, statement, code, answer)
		}
		if strings.Contains(answer, guardedText) {
			s.t.Errorf("%s: %s\n\tgives away %s", who, statement, answer)
		}
	}
}

func (s *strict) untouched() {
	s.t.Helper()
	if n := s.came.Load(); n != 0 {
		s.t.Errorf("the engine made %d connections", n)
	}
	entries, err := os.ReadDir(s.outside)
	must(s.t, err)
	if len(entries) != 1 {
		s.t.Errorf("files were made: %v", entries)
	}
}

func (s *strict) expand(text string) string {
	return strings.NewReplacer(
		"$FILE", filepath.Join(s.outside, "secret"), "$DIR", s.outside, "$URL", s.url, "$HOST",
		strings.TrimPrefix(s.url, "http://"), "$TABLE", ours,
	).Replace(text)
}

// tableFunctions maps each table function to arguments that make it read from outside. A function
// with empty arguments only computes and takes no location or query.
var tableFunctions = map[string]string{
	"SQLStandardValues": "",
	"values":            "",
	"fuzzJSON":          "", "generateRandom": "", "generateSeries": "", "generate_series": "",
	"input":      "",
	"null":       "",
	"numbers":    "",
	"numbers_mt": "", "primes": "", "zeros": "", "zeros_mt": "", "format": "", "fuzzQuery": "",
	// These read our own tables by name, as SELECT does.
	"merge":               "",
	"mergeTreeIndex":      "",
	"mergeTreeProjection": "",
	"mergeTreeTextIndex":  "", "mergeTreeAnalyzeIndexes": "", "mergeTreeAnalyzeIndexesUUID": "",
	"timeSeriesData":    "",
	"timeSeriesMetrics": "", "timeSeriesSamples": "", "timeSeriesSelector": "", "timeSeriesTags": "",
	"prometheusQuery": "", "prometheusQueryRange": "", "dictionary": "",
	// These execute a query.
	"view":            "SELECT * FROM file('$FILE', 'LineAsString')",
	"viewIfPermitted": "SELECT * FROM file('$FILE', 'LineAsString') ELSE null('x String')",
	"viewExplain":     "'EXPLAIN', '', (SELECT * FROM file('$FILE', 'LineAsString'))",
	"eval":            "'SELECT * FROM file(''$FILE'', ''LineAsString'')'",
	"loop":            "file('$FILE', 'LineAsString')",
	"cluster":         "'default', system.one", "clusterAllReplicas": "'default', system.one",

	"file":        "'$FILE', 'LineAsString', 'x String'",
	"fileCluster": "'default', '$FILE', 'LineAsString', 'x String'", "filesystem": "'$DIR'",
	"executable": "'secret', 'LineAsString', 'x String'",
	"url":        "'$URL', 'LineAsString', 'x String'",
	"urlCluster": "'default', '$URL', 'LineAsString', 'x String'",
	"remote":     "'$HOST', system.one", "remoteSecure": "'$HOST', system.one",
	"mysql":      "'$HOST', 'd', 't', 'u', 'p'",
	"postgresql": "'$HOST', 'd', 't', 'u', 'p'", "mongodb": "'$HOST', 'd', 'c', 'u', 'p', 'x String'",
	"redis":  "'$HOST', 'x', 'x String'",
	"sqlite": "'$FILE', 't'", "odbc": "'DSN=x', 't'", "jdbc": "'jdbc:x', 't'",
	"hdfs":        "'hdfs://$HOST/x', 'LineAsString', 'x String'",
	"hdfsCluster": "'default', 'hdfs://$HOST/x', 'LineAsString', 'x String'",
	"ytsaurus":    "'$URL', '//x', 'token', 'x String'",
}

// objectStores maps parts of the names of functions for object stores and their table formats to
// arguments. The first match counts.
var objectStores = []struct{ in, arguments string }{
	{"LocalCluster", "'default', '$DIR'"}, {"Local", "'$DIR'"},
	{"AzureCluster", "'default', '$URL/', 'c', 'x', 'devstoreaccount1', 'a2V5'"},
	{"Azure", "'$URL/', 'c', 'x', 'devstoreaccount1', 'a2V5'"},
	{"azureBlobStorageCluster", "'default', '$URL/', 'c', 'x', 'devstoreaccount1', 'a2V5'"},
	{"azureBlobStorage", "'$URL/', 'c', 'x', 'devstoreaccount1', 'a2V5'"},
	{"HDFSCluster", "'default', 'hdfs://$HOST/x'"}, {"HDFS", "'hdfs://$HOST/x'"},
	{"s3Cluster", "'default', '$URL/bucket/x', 'LineAsString', 'x String'"},
	{"s3", "'$URL/bucket/x', 'LineAsString', 'x String'"},
	{"gcs", "'$URL/bucket/x', 'LineAsString', 'x String'"},
	{"oss", "'$URL/bucket/x', 'LineAsString', 'x String'"},
	{"cosn", "'$URL/bucket/x', 'LineAsString', 'x String'"},
	{"Cluster", "'default', '$URL/bucket/x/'"},
	{"deltaLake", "'$URL/bucket/x/'"}, {"iceberg", "'$URL/bucket/x/'"}, {"hudi", "'$URL/bucket/x/'"},
	{"paimon", "'$URL/bucket/x/'"},
}

func argumentsOf(function string) (arguments string, known bool) {
	if arguments, known = tableFunctions[function]; known {
		return arguments, true
	}
	for _, store := range objectStores {
		if strings.Contains(function, store.in) {
			return store.arguments, true
		}
	}
	return "", false
}

// answered returns other error codes with which a function that takes a location or a query may
// fail. The constants say why it still reaches nothing.
func answered(function string) []int {
	const (
		noScript     = 1 // user_scripts is a folder that does not exist
		noInsert     = 48
		experimental = 344 // a reader may not change the setting that enables it
		noAccess     = 481
		noCluster    = 701 // see TestThereIsNoCluster
		ran          = 0   // the response is searched for the guarded text
	)
	switch {
	case strings.HasSuffix(function, "Cluster"), strings.HasPrefix(function, "cluster"):
		return []int{noCluster}
	case function == "executable":
		return []int{noScript, noInsert}
	case function == "sqlite": // opens its file before it checks privileges; the kernel rejects it
		return []int{noAccess}
	case function == "eval":
		return []int{experimental}
	case function == "viewIfPermitted":
		return []int{ran}
	}
	return nil
}

func TestNoTableFunctionReachesOutside(t *testing.T) {
	s := startStrict(t)
	functions := s.list("SELECT name FROM system.table_functions ORDER BY name")
	if len(functions) < 80 {
		t.Fatalf("there are only %d table functions: %v", len(functions), functions)
	}
	for _, function := range functions {
		arguments, known := argumentsOf(function)
		switch {
		case !known:
			t.Errorf("the table function %s is new: say in tableFunctions what it reads", function)
		case arguments != "":
			call := function + "(" + s.expand(arguments) + ")"
			s.refused("SELECT * FROM "+call, answered(function)...)
			s.refused("INSERT INTO FUNCTION "+call+" SELECT 'x'", answered(function)...)
		}
	}
	code, answer := s.ask(s.Service(),
		s.expand("SELECT * FROM eval('SELECT * FROM file(''$FILE'', ''LineAsString'')') SETTINGS allow_experimental_eval_table_function = 1"))
	if code != codeAccessDenied || strings.Contains(answer, guardedText) {
		t.Errorf("eval is answered %d: %s", code, answer)
	}
	s.untouched()
}

// innerEngines are table engines that store their rows in the engine's own folder or nowhere, or
// that read our tables by name. The service may create the first three.
var innerEngines = []string{
	"MergeTree", "ReplacingMergeTree", "AggregatingMergeTree",
	"View", // only created by CREATE VIEW, with the privileges of its query
}

func TestNoTableEngineReachesOutside(t *testing.T) {
	s := startStrict(t)
	engines := s.list("SELECT name FROM system.table_engines ORDER BY name")
	if len(engines) < 60 {
		t.Fatalf("there are only %d table engines: %v", len(engines), engines)
	}
	for _, engine := range engines {
		if slices.Contains(innerEngines, engine) {
			continue
		}
		for _, arguments := range []string{
			"", "('$FILE')", "('$URL', 'LineAsString')", "('$HOST', 'd', 't', 'u', 'p')",
		} {
			s.refused("CREATE TABLE `lumenhook`.t_" + engine + " (x String) ENGINE = " + engine + s.expand(
				arguments,
			))
		}
	}
	for _, engine := range s.list("SELECT name FROM system.database_engines") {
		s.refused("CREATE DATABASE d_" + engine + " ENGINE = " + engine)
		s.refused("CREATE DATABASE d_" + engine + s.expand(" ENGINE = "+engine+"('$DIR')"))
	}
	s.untouched()
}

func TestNoDictionaryIsMade(t *testing.T) {
	s := startStrict(t)
	wide := &strict{Engine: clickhousetest.Start(t), t: t}
	sources := wide.list("SELECT name FROM system.dictionary_sources ORDER BY name")
	if len(sources) < 10 {
		t.Fatalf("there are only %d dictionary sources: %v", len(sources), sources)
	}
	for _, source := range sources {
		s.refused("CREATE DICTIONARY `lumenhook`.d_" + source + " (k UInt64, v String) PRIMARY KEY k SOURCE(" + source + s.expand("(path '$FILE' format 'TSV')") + ") LAYOUT(FLAT()) LIFETIME(0)")
	}
	s.untouched()
}

func TestThereIsNoCluster(t *testing.T) {
	s := &strict{Engine: clickhousetest.Start(t), t: t}
	for _, table := range []string{"clusters", "named_collections"} {
		if n := s.list("SELECT count() FROM system." + table); !slices.Equal(n, []string{"0"}) {
			t.Errorf("system.%s has %v rows", table, n)
		}
	}
}

// forbidden are statements that read or write outside, take over the server, or grant privileges.
var forbidden = []string{
	"SELECT 1 INTO OUTFILE '$DIR/out'",
	"BACKUP TABLE $TABLE TO File('$DIR/backup')", "BACKUP TABLE $TABLE TO Disk('default', 'backup')",
	"BACKUP TABLE $TABLE TO S3('$URL/bucket/x', 'a', 'b')",
	"CREATE TABLE `lumenhook`.t1 (x UInt64) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = web, endpoint = '$URL/')",
	"CREATE TABLE `lumenhook`.t2 (x UInt64) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = object_storage, object_storage_type = web, endpoint = '$URL/')",
	"ALTER TABLE $TABLE MODIFY SETTING disk = disk(type = web, endpoint = '$URL/')",
	"ALTER TABLE $TABLE MODIFY SETTING storage_policy = 'other'",
	"CREATE TABLE `lumenhook`.t3 AS file('$FILE', 'LineAsString')",
	"CREATE TABLE `lumenhook`.t4 AS url('$URL', 'LineAsString')",
	"CREATE VIEW `lumenhook`.v1 AS SELECT * FROM file('$FILE', 'LineAsString')",
	"CREATE VIEW `lumenhook`.v2 AS SELECT * FROM url('$URL', 'LineAsString', 'x String')",
	"CREATE VIEW `lumenhook`.v3 DEFINER = default SQL SECURITY DEFINER AS SELECT 1",
	"CREATE VIEW `lumenhook`.v4 SQL SECURITY NONE AS SELECT 1",
	"CREATE MATERIALIZED VIEW `lumenhook`.v5 REFRESH EVERY 1 SECOND ENGINE = Memory AS SELECT * FROM url('$URL', 'LineAsString', 'x String')",
	"CREATE FUNCTION f AS x -> x", "CREATE NAMED COLLECTION c AS url = '$URL'",
	"CREATE TEMPORARY TABLE t5 (x String)",
	"CREATE USER u", "CREATE ROLE r", "GRANT ALL ON *.* TO reader",
	"GRANT SELECT ON `lumenhook`.* TO reader WITH GRANT OPTION",
	"ALTER USER reader SETTINGS readonly = 0", "CREATE ROW POLICY p ON $TABLE USING 1 TO ALL",
	"CREATE QUOTA q", "CREATE SETTINGS PROFILE p",
	"CREATE WORKLOAD w", "CREATE RESOURCE r (WRITE DISK default)",
	"DROP DATABASE `lumenhook`", "DROP DATABASE system",
	"DETACH DATABASE `lumenhook`", "CREATE DATABASE other",
	"SYSTEM SHUTDOWN", "SYSTEM KILL", "SYSTEM RELOAD USERS", "SYSTEM DROP DNS CACHE",
	"SYSTEM FLUSH LOGS", "SYSTEM STOP LISTEN TCP", "SYSTEM START LISTEN MYSQL",
	"SYSTEM STOP MERGES $TABLE", "SYSTEM UNFREEZE WITH NAME 'x'", "SYSTEM SYNC FILE CACHE",
	"SYSTEM STOP LISTEN QUERIES ALL",
	"SELECT * FROM system.users", "SELECT * FROM system.macros",
	"SHOW CREATE USER default", "SHOW GRANTS FOR default", "SHOW USERS",
	"SELECT demangle(addressToSymbol(1))", "SELECT addressToLine(1)",
}

// closed are statements that fail for both users for reasons other than missing privileges,
// because they need objects that don't exist and that the users cannot create.
var closed = map[string]int{
	// no backups.allowed_path
	"RESTORE TABLE $TABLE AS `lumenhook`.restored FROM File('$DIR/backup')": 318,
	// impersonation is off
	"EXECUTE AS default SELECT 1":               344,
	"SYSTEM RELOAD CONFIG":                      1,    // only in a server
	"SELECT catboostEvaluate('$FILE', 1)":       1000, // its library does not exist
	"SELECT file('$FILE')":                      76,   // the kernel rejects it: see confine.go
	"SELECT file('/etc/passwd')":                76,
	"SELECT file('/proc/self/../1/environ')":    76,
	"SELECT file('$DIR/../secret')":             107, // does not exist
	"ALTER TABLE $TABLE FREEZE WITH NAME 'n'":   0,   // a copy within the data folder
	"ALTER TABLE $TABLE UNFREEZE WITH NAME 'n'": 0,
}

func TestNoStatementReachesOutside(t *testing.T) {
	s := startStrict(t)
	const (
		outfileNotAllowed  = 358
		functionNotAllowed = 446
	)
	for _, statement := range forbidden {
		s.refused(s.expand(statement), codeConstraintViolation, outfileNotAllowed, functionNotAllowed)
	}
	for statement, want := range closed {
		s.refused(s.expand(statement), want)
	}
	s.untouched()
}

// openTables are the system tables that a reader may read. They contain facts about ClickHouse
// and what the reader may see of our own database anyway.
var openTables = []string{
	"aggregate_function_combinators", "build_options", "codecs", "collations", "contributors",
	"data_type_families", "database_engines",
	"documentation", "formats", "functions", "graphite_retentions", "keywords", "licenses",
	"merge_tree_settings", "one", "privileges",
	"settings", "table_engines", "table_functions", "time_zones", "tokenizers", "unicode",
	"dictionary_layouts", "data_skipping_index_types",
	"dimensional_metrics", "disk_types", "zeros", "zeros_mt", "numbers", "numbers_mt", "primes",
	"completions", "current_roles", "enabled_roles",
	"columns", "databases", "tables", "parts", "parts_columns", "projection_parts",
	"projection_parts_columns", "projections", "constraints",
	"data_skipping_indices", "dictionaries", "mutations", "merges", "moves", "detached_tables",
	"replicas", "replication_queue", "grants", "quota_usage",
	"settings_profile_elements", "settings_changes", "hypothetical_indexes", "row_policies",
	"processes", "user_processes", "iceberg_history", "iceberg_files",
}

var endless = []string{"numbers", "numbers_mt", "zeros", "zeros_mt", "primes"}

func TestAReaderSeesNoSecretInSystemTables(t *testing.T) {
	s := startStrict(t)
	tables := s.list("SELECT name FROM system.tables WHERE database = 'system' ORDER BY name")
	wide := clickhousetest.Start(t)
	all := (&strict{Engine: wide, t: t}).list("SELECT name FROM system.tables WHERE database IN ('system', 'information_schema', 'INFORMATION_SCHEMA') ORDER BY name")
	if len(all) < 100 {
		t.Fatalf("there are only %d system tables: %v", len(all), all)
	}
	for _, table := range slices.Compact(append(tables, all...)) {
		limit := ""
		if slices.Contains(endless, table) {
			limit = " LIMIT 1"
		}
		code, answer := s.ask(s.Reader(), "SELECT * FROM system.`"+table+"`"+limit)
		if code == 0 && len(answer) > 0 && !slices.Contains(openTables, table) {
			t.Errorf("system.%s is open to a reader: %.200q", table, answer)
		}
		for _, secret := range []string{s.Service().Password, s.Reader().Password} {
			if strings.Contains(answer, secret) {
				t.Errorf("system.%s holds a password", table)
			}
		}
	}
}

// No client gets in without a password over either protocol, neither as the local user, whose
// only session is in use, nor as any other user. A rejection must not affect other clients.
func TestWhoeverHasNoPasswordIsRefused(t *testing.T) {
	s := startStrict(t)
	logins := map[clickhouse.Login]int{
		{}:                codeAuthentication,
		{User: "default"}: codeSessionLimit, {User: "default", Password: "x"}: codeSessionLimit,
		{User: "lumenhook"}: codeAuthentication,
		{User: "reader", Password: s.Service().Password}: codeAuthentication,
		{User: "nobody"}: codeAuthentication,
	}
	refused := func() {
		for login, want := range logins {
			if code, answer := s.send(login, http.MethodGet, "/?query=SELECT+1", ""); code != want {
				t.Errorf("%+v is answered %d: %s", login, code, answer)
			}
		}
	}
	refused()
	s.toldToNameAUser()
	for _, who := range []string{"default:", "lumenhook:wrong"} {
		conn := connect(t, "clickhouse://"+who+"@"+s.NativeAddr()+"/lumenhook")
		if err := conn.Exec(deadline(t), "SELECT 1"); err == nil {
			t.Errorf("%s is let in over the native protocol", who)
		}
		refused()
	}
	must(t, connect(t, s.DSN()).Ping(deadline(t)))
	if s.Restarts() != 0 {
		t.Errorf("a refusal ended the engine: it was restarted %d times", s.Restarts())
	}
}

// toldToNameAUser checks that a request without a user in a header gets 401 with instructions,
// and that a request with a user is executed.
func (s *strict) toldToNameAUser() {
	s.t.Helper()
	get := func(path string, header ...string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.HTTPURL()+path, nil)
		must(s.t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		must(s.t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(s.t, err)
		return resp.StatusCode, string(text), resp.Header
	}
	reader := url.Values{"user": {s.Reader().User}, "password": {s.Reader().Password}}
	for _, path := range []string{
		"/?query=SELECT+1", "/?database=lumenhook&query=SELECT+1", "/?query=SELECT+1&" + reader.Encode(),
	} {
		status, text, header := get(path)
		challenge := header.Get("WWW-Authenticate")
		if status != http.StatusUnauthorized || !strings.Contains(text, "Name a user and a password") ||
			challenge == "" || strings.HasPrefix(strings.ToLower(challenge), "basic") {
			s.t.Errorf("without a user, %s is answered %d, %q: %s", path, status, challenge, text)
		}
	}
	status, text, _ := get("/?query=SELECT+41%2B1", "X-ClickHouse-User", s.Reader().User,
		"X-ClickHouse-Key", s.Reader().Password)
	if status != http.StatusOK || text != "42\n" {
		s.t.Errorf("with a user in ClickHouse's own headers, it is answered %d: %s", status, text)
	}
}

// The folder of an older engine has no users. Its database must stay usable, with the passwords
// that the caller stores.
func TestAFolderOfBeforePasswordsGoesOn(t *testing.T) {
	cfg := clickhouse.Config{
		Program: clickhousetest.Program(t),
		DataDir: t.TempDir(),
		Grants:  clickhousetest.ServiceGrants("lumenhook"),
		Logger:  clickhousetest.Logger(t),
		Service: clickhouse.Login{Password: "kept-by-the-caller"},
		Reader:  clickhouse.Login{Password: "so is this"},
	}
	ctx := deadline(t)
	e, err := clickhouse.Start(ctx, cfg)
	must(t, err)
	conn := connect(t, e.DSN())
	must(t, conn.Exec(ctx, rowsTable))
	must(t, insert(ctx, conn, 0, 10))
	must(t, e.Stop())
	must(t, os.Remove(filepath.Join(cfg.DataDir, "users.xml"))) // older folders have none
	e, err = clickhouse.Start(ctx, cfg)
	must(t, err)
	defer e.Stop()
	if e.Service().Password != cfg.Service.Password || e.Reader().Password != cfg.Reader.Password {
		t.Errorf("the passwords are %+v and %+v", e.Service(), e.Reader())
	}
	if count, _ := sumOf(t, connect(t, e.ReaderDSN())); count != 10 {
		t.Errorf("the reader counts %d rows", count)
	}
	for _, name := range []string{"users.xml", "config.xml"} {
		text, err := os.ReadFile(filepath.Join(cfg.DataDir, name))
		must(t, err)
		info, err := os.Stat(filepath.Join(cfg.DataDir, name))
		must(t, err)
		if strings.Contains(string(text), cfg.Service.Password) ||
			strings.Contains(string(text), cfg.Reader.Password) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s and holds\n%s", name, info.Mode(), text)
		}
	}
}

// An engine that ignores the users file, as another version of ClickHouse might, lets everyone
// in. It must be stopped and not used.
func TestAnEngineThatLetsEverybodyInIsNotUsed(t *testing.T) {
	program := clickhousetest.Program(t)
	bin := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(program.Library)+":"+filepath.Dir(os.Args[0]))
	script := fmt.Sprintf("#!/bin/sh\nshift\nsed -i '/users_config/d' config.xml\nexec '%s' %s '%s' \"$@\"\n", os.Args[0], clickhouse.ChildArg, program.Library)
	path := filepath.Join(bin, "clickhouse")
	testkit.WriteProgram(t, path, script)
	_, err := clickhouse.Start(deadline(t),
		clickhouse.Config{Program: clickhouse.Program{Binary: path}, DataDir: t.TempDir()})
	if !errors.Is(err, clickhouse.ErrOpen) {
		t.Fatalf("started: %v", err)
	}
}
