package projections

import (
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
)

// knowsClusters is an engine whose configuration names two clusters: "one" is the engine
// itself, "two" has two shards. It has no Keeper, so it cannot replicate.
func knowsClusters(t *testing.T) (dsn func(database, cluster string) string) {
	t.Helper()
	cfg := clickhouse.Config{
		Program: clickhousetest.Program(t),
		DataDir: t.TempDir(),
		Logger:  slog.New(slog.DiscardHandler),
		Service: clickhouse.Login{User: "lumenhook", Password: "of-the-cluster"},
		Grants: append(clickhousetest.Grants(), "SELECT ON system.clusters",
			"CLUSTER, CREATE TEMPORARY TABLE ON *.*", "READ ON REMOTE",
			"SYSTEM SYNC REPLICA ON *.*"),
	}
	further := filepath.Join(cfg.DataDir, "config.d")
	if err := os.MkdirAll(further, 0o700); err != nil {
		t.Fatal(err)
	}
	// The engine may connect to nobody (confine_linux.go), so the one replica must be itself: to
	// ClickHouse that is its own port on 127.0.0.1, and no other address of 127.0.0.0/8. Nothing
	// connects to it.
	const shard = "<shard><replica><host>127.0.0.1</host><port incl='tcp_port'/>" +
		"<user>lumenhook</user><password>of-the-cluster</password></replica></shard>"
	clusters := "<clickhouse><include_from>" + filepath.Join(cfg.DataDir, "config.xml") +
		"</include_from><remote_servers><one>" + shard + "</one>" +
		"<two>" + shard + shard + "</two></remote_servers></clickhouse>"
	err := os.WriteFile(filepath.Join(further, "clusters.xml"), []byte(clusters), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	engine := clickhousetest.StartWith(t, cfg)
	return func(database, cluster string) string {
		u, err := url.Parse(engine.DSN())
		if err != nil {
			t.Fatal(err)
		}
		u.Path, u.RawQuery = "/"+database, url.Values{DSNCluster: {cluster}}.Encode()
		return u.String()
	}
}

func openTest(t *testing.T, dsn string) *DB {
	t.Helper()
	db, err := Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A cluster that is unknown, that shards its rows, or that cannot replicate is an error
// before anything is created; so is a database whose tables are not replicated.
func TestClustersThatTheHistoryCannotBeKeptOn(t *testing.T) {
	t.Parallel()
	dsn := knowsClusters(t)
	if err := Migrate(t.Context(), openTest(t, dsn("plain", ""))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ database, cluster, want string }{
		{"fresh", "three", `knows no cluster "three" (of remote_servers it has one, two)`},
		{"fresh", "two", "the cluster two has 2 shards, and the history is kept on one"},
		// ClickHouse's own words, without a Keeper
		{"fresh", "one", "Replicated DDL queries are disabled"},
		{"plain", "one", "made without --clickhouse-cluster"},
	} {
		if err := Migrate(t.Context(), openTest(t, dsn(c.database, c.cluster))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("of %s on the cluster %s it says %v, want %q", c.database, c.cluster, err, c.want)
		}
	}
	var made uint64
	if err := openTest(t, dsn("fresh", "")).queryRow(t.Context(), countDatabases, nil,
		&made); err != nil || made != 0 {
		t.Errorf("%d databases were made (%v)", made, err)
	}
}

// ClickHouse accepts the queries to a cluster's servers: which tables the others have,
// fetching what was acknowledged, and acknowledgement by a majority.
func TestQuestionsToAClustersServers(t *testing.T) {
	t.Parallel()
	dsn := knowsClusters(t)
	if err := Migrate(t.Context(), openTest(t, dsn("plain", ""))); err != nil {
		t.Fatal(err)
	}
	db := openTest(t, dsn("plain", "one"))
	l, err := db.live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := db.elsewhere(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range l {
		if !slices.Equal(elsewhere[name], []string{f.generation}) {
			t.Errorf("%s has %v, not %s", name, elsewhere[name], f.generation)
		}
	}
	if err := db.settle(t.Context(), "events"); err == nil ||
		!strings.Contains(err.Error(), "is not replicated") {
		t.Errorf("of a table that is not replicated it says %v", err)
	}
	at := topicPartition{"journal", 3}
	if err := db.recordProgress(t.Context(), l, map[topicPartition]int64{at: 7}); err != nil {
		t.Fatal(err)
	}
	progress, err := db.progress(t.Context(), l)
	if err != nil || progress[at] != 7 {
		t.Errorf("the progress is %v (%v)", progress, err)
	}
	quorum := ""
	err = db.server().conn.QueryRow(db.inserting(t.Context()),
		"SELECT concat(toString(getSetting('insert_quorum')), ' ', toString(getSetting('insert_deduplicate')))").Scan(
		&quorum,
	)
	if err != nil || quorum != "auto false" {
		t.Errorf("writes are made with %q (%v)", quorum, err)
	}
}
