// Package projections puts the journal into ClickHouse and reads history out of
// it. It hides ClickHouse: the tables, how facts become rows, how far they are,
// and how a reader sees each row once. It is given a DSN and knows nothing of
// where the server comes from.
//
// # Projector
//
// Records of four topics are gathered into blocks and written with one insert for
// each table and block, some side by side, always in this order:
//
//	payments, endpoints, watches   ┐
//	attempts                       ├─► deliveries ─► projection_progress
//	endpoint_changes, events       ┘
//
// One block is written while the next is gathered; when that is full too, nothing
// more is read. Any fault ends the session: what was gathered is dropped, and
// after a wait a new session begins at the recorded progress. There is one way
// to recover, and every start, every change of partitions, every exchanged table
// and every return of a lost ClickHouse takes it, with tables that are made again
// when they were dropped.
//
// # Generations
//
// Progress is about a table's UUID, which is its generation: it goes with the
// table when a rebuild exchanges it, and a table that was dropped and made again
// has none. A topic is as far as the least of the tables that it fills. So each
// table is exchanged by itself, and at every moment what the progress says is
// true of what is there.
//
//	rebuild:  make T_rebuild ─► fill from 0 ─► rename T_exchange ─► EXCHANGE with T ─► drop
//
// # Several servers
//
// A DSN may name several servers. Each has its own tables and its own progress, so what
// takes several steps is done on one of them, and started again on another when that one
// fails: a session of the projector, a rebuild, a lookup of the API.
//
// Where the DSN names a cluster, the servers are replicas of one another. Its tables are
// made, exchanged and dropped on all of them, and have the same UUID on each, so that
// progress is replicated like rows. A majority has each row before its progress is
// written, and a server is believed what it says of the progress once it has fetched what
// that covers:
//
//	projector ─► server 1 ─┬─ majority has the rows ─► majority has the progress
//	                       └─► Keeper ─► server 2, 3: fetch each table by itself
//
// # Reading
//
// A delivery knows its event's account and time, its endpoint, and when each
// attempt was sent: it leads to the rows of the event and of the attempts, which
// are ordered for lists and for people. An event that was handed over to another
// endpoint has several, and is shown with the present one.
//
// # Invariants
//
//   - P1: progress is written after the rows that it covers. A crash between
//     repeats rows; it never leaves any out.
//   - P2: a row is a function of its facts. Copies collapse by the table's key, a
//     delivery's rows column by column with maxima and unions, so writing a fact
//     twice, in another order, or by two projectors at once changes no answer.
//     Nothing needs fencing, nor that a block which was written before is recognized.
//   - P3: a delivery that is found has its event, and every attempt up to its
//     version: that is what the order of writing is for.
//   - P4: at most two blocks are in memory for each session, each bounded by rows
//     and bytes.
//   - P5: a fact is never skipped. One that cannot be decoded, or is gone from
//     the journal, ends the projector with an error. A record of another topic that
//     does not count (package intake) is set aside: it makes no row, live or rebuilt.
//
// File map:
//
//	database.go          how ClickHouse is reached
//	servers.go           which of several servers
//	cluster.go           servers that are replicas of one another
//	migrate.go           making the tables; retention.go, how long rows are kept
//	tables.go            which topic fills which table, and which UUID each has
//	block.go             records gathered; facts.go (journal), current.go (others), envelope.go
//	columns.go           rows into columns
//	rows.go              the rows of a table, gathered
//	write.go             columns into ClickHouse
//	progress.go, lag.go  how far the tables are
//	partitions.go        which partitions are ours
//	projector.go         sessions, started again after every fault; health
//	session.go           gathering one block while another is written
//	refold.go            filling tables beside the live ones
//	rebuild.go           putting them into the place of the live ones
//	verify.go            comparing them with the live ones
//	history.go, read.go  events with their deliveries and attempts, for the API
//	list.go              lists of events, for the API; full.go, of tables that are not being filled
//	console.go           queries of people
package projections
