package projections

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/schemas"
)

var updateStatements = flag.Bool("update-statements", false, "write testdata/cluster.sql anew")

// clusterStatements are all statements that create, change or drop tables, as a cluster
// gets them.
func clusterStatements(t *testing.T, db *DB) (list []string) {
	t.Helper()
	add := func(statement string, p parameters) { list = append(list, db.onCluster(statement, p)) }
	names := parameters{"table": "events", "filled": "events_rebuild", "full": "events_exchange"}
	add(createDatabase, nil)
	add(createVersions, nil)
	for _, m := range schemas.ClickHouseMigrations() {
		for _, statement := range m.Statements {
			statement = strings.ReplaceAll(statement, "{database:Identifier}", db.name)
			add(statement, nil)
			known, err := asElsewhere(statement,
				map[string][]string{"deliveries": {"00000000-0000-4000-8000-000000000001"}})
			if err != nil {
				t.Fatal(err)
			}
			if known != statement {
				add(known, nil)
			}
		}
		for _, statement := range m.Statements {
			if made, is := forTable(statement, "events", "events_rebuild"); is {
				add(made, nil)
			}
		}
	}
	add(holdMerges, names)
	add(releaseMerges, names)
	add(alterRetention("events", 90*24*time.Hour), names)
	add(alterRetention("events", 0), names)
	add(renameFilled, names)
	add(exchangeFull, names)
	add(dropTable, names)
	return list
}

var (
	columnsOf = regexp.MustCompile(`(?s)\n\(.*\n\)`)
	queryOf   = regexp.MustCompile(`(?s)\nAS SELECT.*`)
)

// The statements for a cluster are those of testdata/cluster.sql, without columns and the
// queries of views, and ClickHouse can parse all of them.
func TestStatementsForACluster(t *testing.T) {
	t.Parallel()
	db := &DB{name: "history", cluster: "shop-1"}
	statements := clusterStatements(t, db)
	engine := clickhousetest.Start(t)
	server, err := Open(engine.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var short strings.Builder
	for _, statement := range statements {
		short.WriteString(queryOf.ReplaceAllString(columnsOf.ReplaceAllString(statement, " (…)"),
			" AS …") + ";\n")
		var read string
		quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(statement) + "'"
		err := server.queryRow(t.Context(), "SELECT formatQuerySingleLine("+quoted+")", nil, &read)
		if err != nil {
			t.Errorf("%v\n%s", err, statement)
		}
		if strings.Count(read, "ON CLUSTER `shop-1`") != 1 || strings.Contains(read, ":Identifier") {
			t.Errorf("ClickHouse reads\n%s", read)
		}
	}
	file := filepath.Join("testdata", "cluster.sql")
	if *updateStatements {
		if err := os.WriteFile(file, []byte(short.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if short.String() != string(want) {
		t.Errorf("a cluster gets (-update-statements takes it)\n%s", short.String())
	}
}

// Tables are replicated where a cluster is named, and only there.
func TestReplicatedTablesNeedTheirCluster(t *testing.T) {
	alone, cluster := &DB{name: "history"}, &DB{name: "history", cluster: "shop"}
	for _, c := range []struct {
		db            *DB
		table, engine string
		want          string
	}{
		{alone, "payments", "ReplacingMergeTree", ""},
		{alone, "payments", "ReplicatedReplacingMergeTree", "--clickhouse-cluster must name its cluster"},
		{alone, "somebodys_own", "ReplicatedMergeTree", ""},
		{cluster, "deliveries", "ReplicatedAggregatingMergeTree", ""},
		{cluster, "projection_progress", "ReplacingMergeTree", "made without --clickhouse-cluster"},
		{cluster, "current_deliveries", "View", ""},
		{cluster, "payments_verify", "ReplacingMergeTree", ""},
	} {
		err := c.db.checkEngine(c.table, c.engine)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s on cluster %q: %v, want %q", c.table, c.engine, c.db.cluster, err, c.want)
		}
	}
}

// A table that other servers have is created with their UUID; if theirs differ, it is not
// created.
func TestATableIsMadeAsTheOtherServersHaveIt(t *testing.T) {
	const statement = "CREATE TABLE IF NOT EXISTS history.events\n(\n    a String\n)"
	made, err := asElsewhere(statement, map[string][]string{"payments": {"1"}})
	if err != nil || made != statement {
		t.Errorf("%v\n%s", err, made)
	}
	made, err = asElsewhere(statement, map[string][]string{"events": {"1"}})
	if err != nil ||
		!strings.HasPrefix(made, "CREATE TABLE IF NOT EXISTS history.events UUID '1'\n(") {
		t.Errorf("%v\n%s", err, made)
	}
	if _, err = asElsewhere(statement, map[string][]string{"events": {"1", "2"}}); err == nil ||
		!strings.Contains(err.Error(), "different tables under the name events (1, 2)") {
		t.Errorf("of two tables it says %v", err)
	}
}
