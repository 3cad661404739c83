// Package writer writes the topics into ClickHouse. It owns the database: the tables, their
// progress, and the choice between several servers. Package history reads the tables. The package
// gets a DSN and doesn't know who runs the server.
//
// # Projector
//
// The projector collects records of four topics into blocks. Each block is written with one insert
// per table, some of them concurrently, always in this order:
//
//	payments, endpoints, watches   ┐
//	attempts, attempt_counts       ├─► deliveries ─► projection_progress
//	endpoint_changes, events       ┘
//
// While one block is written, the next is collected. When that one is full as well, reading stops.
// A block waits for more rows, longer if this process has no reader. If it contains rows that a
// reader waits for, it doesn't wait.
//
// After any error the session ends: the collected rows are dropped and, after a delay, a new
// session starts from the recorded progress. This is the only recovery path. It handles every
// start, every rebalance, every exchanged table and every outage of ClickHouse. Dropped tables are
// recreated.
//
// # Generations
//
// Progress is recorded per table UUID, the table's generation. It moves with the table when a
// rebuild exchanges it, and a table that was dropped and recreated has no progress. The progress of
// a topic is the minimum over the tables that it fills. So tables can be exchanged separately, and
// the progress is always correct for the existing tables.
//
//	rebuild:  make T_rebuild ─► fill from 0 ─► rename T_exchange ─► EXCHANGE with T ─► drop
//
// # Lost rows
//
// If ClickHouse cannot load a part, it answers queries without the part's rows, and it doesn't
// notice a missing part directory. A guard records the parts of each table, detects lost ones, and
// rebuilds damaged tables. Until then, readers treat these tables like tables that are still being
// filled.
//
// # Several servers
//
// A DSN may name several servers, each with its own tables and progress. An operation of several
// steps (a projector session, a rebuild, an API lookup) therefore uses one server, and starts over
// on another one if that server fails.
//
// # Invariants
//
//   - P1: progress is written after the rows that it covers. A crash in between repeats rows but
//     never skips any.
//   - P2: a row is a function of its facts. Duplicates collapse by the table's key; the rows of a
//     delivery, or of a span of attempts, collapse by column with maxima and unions. Writing a
//     fact twice, in another order, or from two projectors at once therefore changes no result.
//     Neither fencing nor block deduplication is needed.
//   - P3: if a delivery is found, so are its event and every attempt up to its version. This is
//     why the tables are written in that order.
//   - P4: a session has at most two blocks in memory, each limited in rows and bytes.
//   - P5: facts are never skipped. If a fact cannot be decoded, or is missing from the journal,
//     the projector stops with an error. An invalid record of another topic (package intake) is
//     set aside and makes no row, in live and rebuilt tables alike.
//
// File map:
//
//	database.go          connections to ClickHouse; statements that change tables; write settings
//	servers.go           choosing between several servers
//	migrate.go           creating the tables; retention.go, how long rows are kept
//	tables.go            which topic fills which table; the tables' UUIDs
//	block.go             collecting records; facts.go (rows of a record), envelope.go
//	columns.go           the collected rows of a table as columns
//	write.go             writing columns to ClickHouse
//	progress.go, lag.go  the progress of the tables
//	inspect.go           the state of the servers, for `lumenhook doctor`
//	partitions.go        assigned partitions, and committing progress to the consumer group
//	projector.go         sessions, restarted after every error; health
//	session.go           collecting one block while another is written
//	asking.go            writing blocks early for a waiting reader
//	refold.go            filling tables next to the live ones
//	turn.go              one refold at a time
//	rebuild.go           replacing live tables with refolded ones
//	restart.go           continuing with other topics
//	verify.go            comparing refolded tables with the live ones
//	damage.go            which tables lost rows on disk
//	guard.go             detecting damage and rebuilding the tables
package writer
