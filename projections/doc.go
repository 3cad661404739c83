// Package projections puts the journal into ClickHouse and reads history out of
// it. It hides ClickHouse: the tables, how facts become rows, how far they are,
// and how a reader sees each row once. It is given a DSN and knows nothing of
// where the server comes from.
//
// # Projector
//
// Facts are gathered into blocks and written with one insert for each table and
// block, always in this order:
//
//	attempts ─► deliveries ─► events ─► projection_progress
//
// One block is written while the next is gathered; when that is full too, nothing
// more is read. Any fault ends the session: what was gathered is dropped, and
// after a wait a new session begins at the recorded progress. There is one way
// to recover, and every start, every change of partitions and every return of a
// lost ClickHouse takes it, with tables that are made anew when they were dropped.
//
// # Invariants
//
//   - P1: progress is written after the rows that it covers. A crash between
//     repeats rows; it never leaves any out.
//   - P2: a row is a function of its fact. Copies are alike in every column and
//     collapse by the table's key, so writing a fact twice, or by two projectors
//     at once, changes no answer. Nothing needs fencing.
//   - P3: an event that is found has its delivery, and a delivery has every
//     attempt up to its version: that is what the order of writing is for.
//   - P4: at most two blocks are in memory, each bounded by rows and bytes.
//   - P5: a fact is never skipped. One that cannot be decoded, or is gone from
//     the journal, ends the projector with an error.
//
// File map:
//
//	database.go    how ClickHouse is reached
//	migrate.go     making the tables
//	block.go       facts into columns
//	write.go       columns into ClickHouse
//	progress.go    how far the tables are
//	partitions.go  which partitions are ours
//	projector.go   sessions, started anew after every fault; health
//	session.go     gathering one block while another is written
//	history.go     events with their deliveries and attempts, for the API
package projections
