// Package projections writes the journal into ClickHouse and reads the history from it. It
// hides ClickHouse: the tables, how facts become rows, their progress, and how a reader
// sees each row once. It is given a DSN and does not know who runs the server.
//
// # Projector
//
// Records of four topics are collected into blocks and written with one insert for each
// table and block, some concurrently, always in this order:
//
//	payments, endpoints, watches   ┐
//	attempts, attempt_counts       ├─► deliveries ─► projection_progress
//	endpoint_changes, events       ┘
//
// One block is written while the next is collected; when that is full too, nothing more is
// read. A block waits for more rows, for longer while no reader of this process is there, and
// not at all if it has what one waits for.
//
// Any error ends the session: what was collected is dropped, and after a wait a new session
// begins at the recorded progress. There is one recovery path, and every start, every change
// of partitions, every exchanged table and every return of an unavailable ClickHouse takes
// it. Tables that were dropped are recreated.
//
// # Generations
//
// Progress is recorded for a table's UUID, which is its generation: it moves with the table
// when a rebuild exchanges it, and a table that was dropped and recreated has none. A
// topic's progress is the least of the tables that it fills. So each table is exchanged by
// itself, and at every moment the progress is true of the existing tables.
//
//	rebuild:  make T_rebuild ─► fill from 0 ─► rename T_exchange ─► EXCHANGE with T ─► drop
//
// # Lost rows
//
// ClickHouse answers without the rows of parts that it cannot load, and does not miss a part
// whose folder is gone. A guard records which parts each table has, notices lost ones, and
// builds damaged tables again. Readers answer meanwhile as for tables that are being filled.
//
// # Several servers
//
// A DSN may name several servers. Each has its own tables and its own progress, so an
// operation of several steps is done on one of them, and started again on another if that
// one fails: a session of the projector, a rebuild, a lookup of the API.
//
// # Reading
//
// A delivery's row holds its event's account and time, its endpoint, and when each attempt
// was sent. With these the rows of the event and of the attempts are found, which are
// sorted for lists and for people. An event that was handed over to another endpoint has
// several, and is shown with the present one.
//
// # Invariants
//
//   - P1: progress is written after the rows that it covers. A crash in between repeats
//     rows; it never leaves any out.
//   - P2: a row is a function of its facts. Copies collapse by the table's key, the rows of
//     a delivery or of a span of attempts column by column with maxima and unions, so writing
//     a fact twice, in another order, or by two projectors at once changes no answer. So
//     neither fencing nor deduplication of blocks is needed.
//   - P3: if a delivery is found, so are its event and every attempt up to its version:
//     that is the purpose of the order of writing.
//   - P4: at most two blocks are in memory for each session, each bounded by rows
//     and bytes.
//   - P5: a fact is never skipped. One that cannot be decoded, or is gone from the
//     journal, ends the projector with an error. An invalid record of another topic
//     (package intake) is set aside: it makes no row, live or rebuilt.
//
// File map:
//
//	database.go          connections to ClickHouse; statements that change tables, and the settings
//	                     of writes
//	servers.go           which of several servers is used
//	migrate.go           creating the tables; retention.go, how long rows are kept
//	tables.go            which topic fills which table, and which UUID each has
//	block.go             records collected; facts.go (journal), current.go (others), envelope.go
//	columns.go           the collected rows of a table, and rows into columns
//	write.go             columns into ClickHouse
//	progress.go, lag.go  the progress of the tables
//	inspect.go           what its servers say of themselves, for `lumenhook doctor`
//	partitions.go        the assigned partitions, and committing to the group how far the tables are
//	projector.go         sessions, restarted after every error; health
//	session.go           collecting one block while another is written
//	asking.go            blocks that do not wait, because somebody reads
//	refold.go            filling tables beside the live ones
//	turn.go              one at a time
//	rebuild.go           replacing the live ones by them
//	anew.go              going on with other topics
//	verify.go            comparing them with the live ones
//	damage.go            which tables lost rows on disk
//	guard.go             noticing that, and building them again
//	history.go, read.go  events with their deliveries and attempts, for the API
//	attemptlog.go        hashes of the logs of attempts, for receipts
//	statement.go         statements of a wallet, for the API
//	list.go              lists and choices of events, for the API; full.go, from complete tables only
//	rates.go             attempts by the minute
//	health.go            how endpoints do: attempts by spans, last success, oldest pending
//	pull.go              events of an endpoint by their numbers
//	steps.go             facts of an endpoint or a watch, with the state after each
//	eventsteps.go        the same of an event's deliveries
//	console.go           queries of people
package projections
