package projections

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"
)

// Where the DSN names a cluster, its servers hold the same tables, each as a replica
// (ReplicatedMergeTree). Statements that create or change tables are executed on all of
// them. A write is acknowledged by a majority, and the progress that a server reports holds
// for that server once it has fetched what was acknowledged before.

const (
	changeMax        = 2 * time.Minute // for a statement on all servers
	changeAnswerSecs = 90              // of that, for the servers that are up to finish it

	quorumMillis = 20_000 // for a majority to have a write; less than insertMax
)

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// CheckClusterName checks the name of a cluster in a DSN; empty means none.
func CheckClusterName(name string) error {
	if name != "" && !clusterName.MatchString(name) {
		return fmt.Errorf("the cluster %q must be 1 to 63 letters, digits, underscores, hyphens or dots",
			name)
	}
	return nil
}

// local returns the database on its server alone, for tables that are not replicated.
func (db *DB) local() *DB {
	alone := *db
	alone.cluster = ""
	return &alone
}

// changeSettings make a statement wait for the servers that are up. Those that are down
// execute it when they come back: Keeper stores it.
var changeSettings = clickhouse.WithSettings(clickhouse.Settings{
	"distributed_ddl_task_timeout": changeAnswerSecs,
	"distributed_ddl_output_mode":  "throw_only_active",
})

// change executes a statement that creates, changes or drops tables, on all servers of the
// cluster.
func (db *DB) change(ctx context.Context, statement string, p parameters) error {
	return db.changeWithin(ctx, statementMax, statement, p)
}

// changeWithin bounds the statement's time; on a cluster that is changeMax.
func (db *DB) changeWithin(
	ctx context.Context, limit time.Duration, statement string, p parameters,
) error {
	if db.cluster != "" {
		limit = changeMax
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if db.cluster == "" {
		return db.server().conn.Exec(db.bind(ctx, p), statement)
	}
	return db.server().conn.Exec(clickhouse.Context(ctx, changeSettings), db.onCluster(statement, p))
}

var (
	identifier = regexp.MustCompile(`\{(\w+):Identifier\}`)
	engineName = regexp.MustCompile(`\bENGINE = (\w*MergeTree)\b`)
	// changeHead matches a statement up to where the cluster is inserted.
	changeHead = regexp.MustCompile(`^(CREATE DATABASE IF NOT EXISTS \w+|` +
		`CREATE TABLE IF NOT EXISTS \w+\.\w+( UUID '[^']*')?|` +
		`CREATE OR REPLACE VIEW \w+\.\w+|` +
		`ALTER TABLE \w+\.\w+|` +
		`DROP TABLE IF EXISTS \w+\.\w+|` +
		`TRUNCATE TABLE \w+\.\w+|` +
		`RENAME TABLE \w+\.\w+ TO \w+\.\w+|` +
		`EXCHANGE TABLES \w+\.\w+ AND \w+\.\w+)`)
)

// onCluster returns the form of a statement for all servers. Names are written out: the
// statement goes through Keeper, which does not carry parameters. A replica's path in
// Keeper is left to the servers' default_replica_path.
func (db *DB) onCluster(statement string, p parameters) string {
	text := identifier.ReplaceAllStringFunc(statement, func(named string) string {
		name := identifier.FindStringSubmatch(named)[1]
		if name == "database" {
			return db.name
		}
		return p[name]
	})
	text = engineName.ReplaceAllString(text, "ENGINE = Replicated$1")
	head := changeHead.FindString(text)
	return head + " ON CLUSTER `" + db.cluster + "`" + text[len(head):]
}

var createTable = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS [^.\s]+\.(\w+)`)

// asElsewhere creates a table as a replica of the one that other servers have: with its
// UUID. Without that, this server would have a separate table under the same name.
func asElsewhere(statement string, elsewhere map[string][]string) (string, error) {
	m := createTable.FindStringSubmatch(statement)
	if m == nil || len(elsewhere[m[1]]) == 0 {
		return statement, nil
	}
	uuids := elsewhere[m[1]]
	if len(uuids) > 1 {
		return "", fmt.Errorf("projections: the servers of the cluster have different tables under the "+
			"name %s (%s): "+
			"wait until all have done what is in system.distributed_ddl_queue; if that is empty, DROP "+
			"TABLE on those that have the wrong one, and repeat",
			m[1], strings.Join(uuids, ", "))
	}
	return m[0] + " UUID '" + uuids[0] + "'" + statement[len(m[0]):], nil
}

// elsewhere returns the UUIDs of tables on all servers of the cluster that answer, by table
// name.
func (db *DB) elsewhere(ctx context.Context) (map[string][]string, error) {
	by := make(map[string][]string)
	if db.cluster == "" {
		return by, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	query := `
SELECT name, arraySort(groupUniqArray(toString(uuid)))
FROM clusterAllReplicas('` + db.cluster + `', system.tables)
WHERE database = {database:String}
GROUP BY name
SETTINGS skip_unavailable_shards = 1`
	err := db.query(ctx, query, nil, func(read func(...any) error) error {
		var name string
		var uuids []string
		err := read(&name, &uuids)
		by[name] = uuids
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: asking the servers of the cluster %s for their tables: %w",
			db.cluster, err)
	}
	return by, nil
}

const selectShards = `
SELECT uniqExactIf(shard_num, cluster = {cluster:String}), arraySort(groupUniqArray(cluster))
FROM system.clusters`

// checkCluster checks that the history can be stored on the cluster.
func (db *DB) checkCluster(ctx context.Context) error {
	if db.cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	var shards uint64
	var known []string
	err := db.queryRow(ctx, selectShards, parameters{"cluster": db.cluster}, &shards, &known)
	if err != nil {
		return fmt.Errorf("projections: asking for the clusters that ClickHouse knows: %w", err)
	}
	switch {
	case shards == 0:
		return fmt.Errorf("projections: ClickHouse knows no cluster %q (of remote_servers it has %s): "+
			"--clickhouse-cluster must name one of them",
			db.cluster, strings.Join(known, ", "))
	case shards > 1:
		return fmt.Errorf("projections: the cluster %s has %d shards, and the history is kept on one, "+
			"with any number of replicas: "+
			"have --clickhouse-cluster name a cluster of one shard (docs/operations.md, several "+
			"ClickHouse servers)",
			db.cluster, shards)
	}
	return nil
}

const selectEngines = `
SELECT name, engine FROM system.tables WHERE database = {database:String} ORDER BY name`

// checkReplication checks that the tables are replicated where a cluster is named, and only
// there: otherwise a write to a replica, which would not wait for a majority, may be lost
// with its server, and the progress would still cover it.
func (db *DB) checkReplication(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	return db.query(ctx, selectEngines, nil, func(read func(...any) error) error {
		var name, engine string
		if err := read(&name, &engine); err != nil {
			return err
		}
		return db.checkEngine(name, engine)
	})
}

func (db *DB) checkEngine(name, engine string) error {
	ours := slices.Contains(append(Tables(), progressTable, versionsTable, partsTable), name)
	replicated := strings.HasPrefix(engine, "Replicated")
	switch {
	case !ours || replicated == (db.cluster != ""):
		return nil
	case replicated:
		return fmt.Errorf("projections: the table %s of the database %s is replicated: "+
			"--clickhouse-cluster must name its cluster", name, db.name)
	}
	return fmt.Errorf("projections: the table %s of the database %s is not replicated, as it was "+
		"made without --clickhouse-cluster: "+
		"name another database, or drop this one; it is built anew from the topics", name, db.name)
}

// settle waits until this server has fetched everything that was acknowledged of tables
// before the call.
func (db *DB) settle(ctx context.Context, tables ...string) error {
	if db.cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	fetching, waiting := errgroup.WithContext(ctx)
	for _, table := range tables {
		fetching.Go(func() error {
			err := db.server().conn.Exec(waiting, "SYSTEM SYNC REPLICA "+db.name+"."+table+" LIGHTWEIGHT")
			if err != nil {
				err = fmt.Errorf("projections: waiting until this replica of %s has what the others have: %w",
					table, err)
			}
			return err
		})
	}
	return fetching.Wait()
}

// insertSettings leave it to merges to collapse rows: looking for copies in every block
// took half of its writing time. A block may span many months: the ledgers since 2015, read
// by a backfill, are more partitions than ClickHouse accepts in one insert by default.
var insertSettings = clickhouse.WithSettings(clickhouse.Settings{
	"optimize_on_insert":              0,
	"max_partitions_per_insert_block": 0,
})

// quorumSettings are insertSettings for replicated tables. A majority has what is
// acknowledged, so that it survives the loss of any server. Deduplication of blocks is off:
// copies collapse anyway, and ClickHouse remembers a block for longer than its rows exist.
var quorumSettings = clickhouse.WithSettings(clickhouse.Settings{
	"optimize_on_insert": 0, "max_partitions_per_insert_block": 0,
	"insert_quorum":          "auto",
	"insert_quorum_parallel": 1, "insert_quorum_timeout": quorumMillis, "insert_deduplicate": 0,
})

// inserting returns the context of a write.
func (db *DB) inserting(ctx context.Context) context.Context {
	if db.cluster == "" {
		return clickhouse.Context(ctx, insertSettings)
	}
	return clickhouse.Context(ctx, quorumSettings)
}

const codeTooFewReplicas = 285

// explainQuorum adds what to do when a majority is unavailable.
func explainQuorum(err error) error {
	if hasCode(err, codeTooFewReplicas) {
		return fmt.Errorf("fewer than a majority of the cluster's replicas are up; the history waits "+
			"for them: %w", err)
	}
	return err
}
