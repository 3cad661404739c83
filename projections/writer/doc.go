// Package writer writes the topics into ClickHouse, and owns the database: the tables, their
// progress, and which of several servers is used. Package history reads the tables. A writer gets a
// DSN and does not know who runs the server.
//
// # Projector
//
// Records of four topics are collected into blocks and written with one insert for each table and
// block, some concurrently, always in this order:
//
//	payments, endpoints, watches   ┐
//	attempts, attempt_counts       ├─► deliveries ─► projection_progress
//	endpoint_changes, events       ┘
//
// One block is written while the next is collected. When that is full too, nothing more is read. A
// block waits for more rows, longer if this process has no reader, and not at all if it has the
// rows that a reader waits for.
//
// Any error ends the session: the collected rows are dropped, and after a wait a new session begins
// at the recorded progress. There is one recovery path, and every start, every change of
// partitions, every exchanged table and every return of an unavailable ClickHouse takes it. Tables
// that were dropped are recreated.
//
// # Generations
//
// Progress is recorded for a table's UUID, which is its generation: it moves with the table when a
// rebuild exchanges it, and a table that was dropped and recreated has no progress. A topic's
// progress is the least of the tables that it fills. So each table can be exchanged separately, and
// the progress is correct for the existing tables at every moment.
//
//	rebuild:  make T_rebuild ─► fill from 0 ─► rename T_exchange ─► EXCHANGE with T ─► drop
//
// # Lost rows
//
// ClickHouse answers without the rows of parts that it cannot load, and does not notice a part
// whose folder is missing. A guard records which parts each table has, detects lost ones, and
// rebuilds damaged tables. In the meantime readers treat them like tables that are being filled.
//
// # Several servers
//
// A DSN may name several servers. Each has its own tables and its own progress, so an operation of
// several steps is done on one of them, and started again on another if that one fails: a session
// of the projector, a rebuild, a lookup of the API.
//
// # Invariants
//
//   - P1: progress is written after the rows that it covers. A crash in between repeats rows; it
//     never skips any.
//   - P2: a row is a function of its facts. Copies collapse by the table's key, the rows of a
//     delivery or of a span of attempts column by column with maxima and unions, so writing a fact
//     twice, in another order, or by two projectors at once changes no answer. Neither fencing nor
//     deduplication of blocks is needed.
//   - P3: if a delivery is found, so are its event and every attempt up to its version. This is why
//     tables are written in that order.
//   - P4: at most two blocks are in memory for each session, each bounded by rows and bytes.
//   - P5: a fact is never skipped. If one cannot be decoded, or is missing in the journal, the
//     projector stops with an error. An invalid record of another topic (package intake) is set
//     aside: it makes no row, live or rebuilt.
//
// File map:
//
//	database.go          connections to ClickHouse; statements that change tables, and the settings
//	                     of writes
//	servers.go           which of several servers is used
//	migrate.go           creating the tables; retention.go, how long rows are kept
//	tables.go            which topic fills which table, and which UUID each has
//	block.go             records collected; facts.go (rows of a record), envelope.go
//	columns.go           the collected rows of a table, and rows into columns
//	write.go             columns into ClickHouse
//	progress.go, lag.go  the progress of the tables
//	inspect.go           the state of its servers, for `lumenhook doctor`
//	partitions.go        the assigned partitions, and committing the progress to the group
//	projector.go         sessions, restarted after every error; health
//	session.go           collecting one block while another is written
//	asking.go            blocks that do not wait, because there is a reader
//	refold.go            filling tables next to the live ones
//	turn.go              one refold at a time
//	rebuild.go           replacing the live tables by refolded ones
//	restart.go           continuing with other topics
//	verify.go            comparing refolded tables with the live ones
//	damage.go            which tables lost rows on disk
//	guard.go             detecting that, and rebuilding the tables
package writer
