// Package ops implements the commands with which operators work on a deployment: they read its
// topics, its history and its ledgers, and replace its master key.
//
// It hides where reading a topic begins and ends, how records are selected and written as JSON
// (records that this program cannot decode are printed raw, with the reason); where an SQL
// statement ends, the line editing of a terminal, and how values of ClickHouse are written in a
// table, as JSON and as CSV; which records of the topics count when ledgers are read again, and
// what is a difference; how the balances of a source and of a statement are brought to one ledger;
// the walk over the table of endpoints, and how the engine reseals a value without losing
// concurrent changes.
//
// Invariants of a rewrap:
//
//   - The key is rotated only once the service is known to run: otherwise values would stay sealed
//     with a key that is already old.
//   - Each value is resealed by the engine, endpoint by endpoint, so a walk can be interrupted and
//     repeated at any point. One partition's rows are in memory at a time.
//   - A key is dropped only if neither the table nor an undecided command has a value that it
//     sealed.
//
// Invariants of a reconciliation:
//
//   - The balances that are compared are those of one ledger. A service or a source that is behind
//     is an error, and never a difference.
//   - Waiting is bounded by Reconciliation.Timeout.
//   - A balance without a recorded move is shown, and is neither equal nor different, because
//     nothing is known of it.
//
// The others change nothing.
//
// File map:
//
//	topics.go       which records of a topic are printed, from where, and a record as JSON
//	sql.go          one query, a script of them, a shell; answers as tables, JSON and CSV
//	ledgercheck.go  ledgers read again, compared with the observed payments
//	reconcile.go    balances of a statement and of a source, compared
//	rewrap.go       replacing the master key, and dropping a key: walks over the sealed values
package ops
