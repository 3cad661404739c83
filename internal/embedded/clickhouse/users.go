package clickhouse

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// Login is a user of the engine with its password.
type Login struct {
	User     string
	Password string
}

// String omits the password.
func (l Login) String() string { return l.User }

func (c Config) allows(user, password string) bool {
	given := sha256.Sum256([]byte(user + "\x00" + password))
	var same int
	for _, l := range []Login{c.Service, c.Reader} {
		want := sha256.Sum256([]byte(l.User + "\x00" + l.Password))
		same |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return same == 1
}

func (l Login) complete(user string) Login {
	return Login{User: cmp.Or(l.User, user), Password: cmp.Or(l.Password, rand.Text())}
}

func (l Login) hash() string {
	sum := sha256.Sum256([]byte(l.Password))
	return hex.EncodeToString(sum[:])
}

const (
	// localUser is the user that `clickhouse local` itself runs as. It cannot have a password.
	localUser = "default"

	readerTimeSeconds    = 60  // of a query that sets no limit itself
	readerTimeMaxSeconds = 610 // ten minutes, plus the margin that clients add to their own limit
	readerMemoryMaxBytes = 1 << 30
	ownMemoryBytes       = 384 << 20 // of the server itself, and of the service's queries
	readerQueriesMax     = 16        // a dashboard runs the queries of all its panels at once
)

// serveQuery creates the database, opens the ports, and reads standard input to its end. Nothing is
// ever written to standard input, so the server lives as long as the pipe. The database has ENGINE
// = Atomic, because the server's own default database is an overlay of files.
func serveQuery(database string) string {
	return strings.Join(serveStatements(database), "; ")
}

func serveStatements(database string) []string {
	return []string{
		"CREATE DATABASE IF NOT EXISTS `" + database + "` ENGINE = Atomic",
		"SYSTEM START LISTEN TCP", "SYSTEM START LISTEN HTTP",
		"SELECT count() FROM file('-', 'TSV', 'x String') FORMAT Null",
	}
}

// usersConfig is rewritten at every start.
//
// The local user is restricted in three ways, because it has no password. It may only have one
// session, which the serving query opens before any port and keeps as long as the server lives, so
// no other client can get one. It may only execute as many queries as the serving query has
// statements, so none are left if that session ends before the ports close. And it only has the
// privileges that these statements need.
//
// The service fills one database, with the table engines that schemas/clickhouse names. Neither it
// nor the reader may use a source (file, url, s3, remote, executable and the like) or create a
// dictionary, a function, a user or a backup. The disk of a table is the server's own. The reader's
// few changeable settings are those with which clients bound their own queries. A reader's query
// stops when its client leaves: over the native protocol always, over HTTP because of a setting and
// of the gateway, which sees it sooner.
//
// The reader sees its own queries in system.processes, so it can stop them. The service sees those
// of all users. Neither sees the serving query, whose end would be the server's.
//
// The profiler's signals are disabled, because the process is also a Go program.
var usersConfig = parseXML("users", `<clickhouse>
  <profiles>
    <default>
      <query_profiler_real_time_period_ns>0</query_profiler_real_time_period_ns>
      <query_profiler_cpu_time_period_ns>0</query_profiler_cpu_time_period_ns>
      <backup_restore_s3_retry_attempts>0</backup_restore_s3_retry_attempts>
      <constraints>
        <merge_tree_disk><const/></merge_tree_disk>
        <merge_tree_storage_policy><const/></merge_tree_storage_policy>
      </constraints>
    </default>
    <local>
      <profile>default</profile>
      <max_sessions_for_user>1</max_sessions_for_user>
    </local>
    <reader>
      <profile>default</profile>
      <readonly>1</readonly>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
      <max_concurrent_queries_for_user>{{.QueriesMax}}</max_concurrent_queries_for_user>
      <max_memory_usage_for_user>{{.MemoryForAll}}</max_memory_usage_for_user>
      <max_memory_usage>{{.MemoryMax}}</max_memory_usage>
      <max_execution_time>{{.Time}}</max_execution_time>
      <constraints>
        <max_memory_usage>
          <min>1</min><max>{{.MemoryMax}}</max><changeable_in_readonly/>
        </max_memory_usage>
        <max_execution_time>
          <min>1</min><max>{{.TimeMax}}</max><changeable_in_readonly/>
        </max_execution_time>
        <max_result_rows><changeable_in_readonly/></max_result_rows>
        <result_overflow_mode><changeable_in_readonly/></result_overflow_mode>
      </constraints>
    </reader>
  </profiles>
  <quotas>
    <default/>
    <local>
      <interval><duration>2000000000</duration><queries>{{.LocalQueries}}</queries></interval>
    </local>
  </quotas>
  <users>{{range .Users}}
    <{{.Name}}>
      {{if .Hash}}<password_sha256_hex>{{.Hash}}</password_sha256_hex>{{else}}<no_password/>{{end}}
      <networks><ip>127.0.0.0/8</ip><ip>::1</ip></networks>
      <profile>{{.Profile}}</profile>
      <quota>{{.Quota}}</quota>
      <grants>{{range .Grants}}<query>GRANT {{x .}}</query>{{end}}</grants>
      {{with .Processes}}<databases><system><processes>
        <filter>{{x .}}</filter>
      </processes></system></databases>{{end}}
    </{{.Name}}>{{end}}
  </users>
</clickhouse>
`)

type userConfig struct {
	Name, Hash, Profile, Quota string
	Grants                     []string
	Processes                  string // which rows of system.processes it sees; all if empty
}

type usersValues struct {
	MemoryMax, Time, TimeMax, QueriesMax, LocalQueries int

	MemoryForAll int64 // of all queries of the reader together
	Users        []userConfig
}

func usersOf(cfg Config) usersValues {
	database := "`" + cfg.Database + "`.*"
	service := append([]string{
		"SELECT ON system.processes", "KILL QUERY ON *.*",
	}, cfg.Grants...)
	return usersValues{
		MemoryMax:    readerMemoryMaxBytes,
		MemoryForAll: min(readerMemoryMaxBytes, cfg.MaxMemoryBytes-ownMemoryBytes),
		Time:         readerTimeSeconds,
		TimeMax:      readerTimeMaxSeconds,
		QueriesMax:   readerQueriesMax,
		LocalQueries: len(serveStatements(cfg.Database)),
		Users: []userConfig{
			{
				Name: localUser, Profile: "local", Quota: "local",
				Grants: []string{
					"CREATE DATABASE ON " + database, "TABLE ENGINE ON Atomic", "SYSTEM LISTEN ON *.*",
					"READ ON FILE", "CREATE TEMPORARY TABLE ON *.*",
				},
			},
			{
				cfg.Service.User, cfg.Service.hash(), "default", "default", service,
				"user NOT IN ('', '" + localUser + "')", // the serving query has no user
			},
			{
				cfg.Reader.User, cfg.Reader.hash(), "reader", "default",
				[]string{
					"SHOW, SELECT ON " + database, "SELECT ON system.parts", "SELECT ON system.processes",
				},
				"user = '" + cfg.Reader.User + "'",
			},
		},
	}
}
