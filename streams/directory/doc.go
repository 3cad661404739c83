// Package directory is the read model of the tables `accounts`, `endpoints`, `watches` and
// `key-uses`: from it every API and follower node learns whose a key is, what an endpoint
// is, and which watches name a wallet.
//
// It hides a Pebble store and the one goroutine that fills it from the tables,
// all partitions, read committed. The store is a cache: a deleted folder, other
// topics or another format are filled again from the tables.
//
// Invariants:
//
//   - Rows, index entries and checkpoints of what was read change in one batch. A
//     position is published only after its batch is committed, so a reader that waited for
//     a position sees everything before it.
//   - The log's order decides: the last record of a key is its row, an empty value
//     deletes it. Versions are not compared: the engine's task is the only writer and is
//     fenced (G4).
//   - Compaction may drop a tombstone 24 hours after it was written
//     (delete.retention.ms). A store that has not passed the tables' ends for 12
//     hours could therefore miss a deletion, and is filled again from nothing.
//     Do not set delete.retention.ms lower than a day on the tables.
//   - A table's end is its high watermark. A read-committed reader that has reached it
//     has seen everything that was acknowledged before the request, also what was in a
//     transaction that was still open then.
//   - Nothing is kept in memory per endpoint or account, but for a bounded number that was
//     read lately (cache.go); of a watch it is at most 6 bytes: a filter of the wallets that
//     are watched (wallets.go). It may take a wallet for a watched one, and never denies one
//     that is.
//
// Keys of the store, by their first byte; every entry is in the store's order:
//
//	0x10 account id            the row
//	0x11 endpoint id           the row
//	0x12 watch id              the row
//	0x13 key hash              the account's id
//	0x14 wallet, 0x00, hash    nothing: the watches of a wallet, by a hash of their
//	     of account, 0x00,     account, then newest first
//	     inverted time, id
//	0x16                       when the store last was known to be whole
//	0x17 list, scope, 0x00,    nothing: lists, newest first (list.go). The time is
//	     inverted time, id     of the creation, so that a row keeps its place
//	0x18 key id                when the key was last used
//	0x19 watch id              nothing: watches with a backfill in progress or an open part
//	0x1a watch id              nothing: watches without a first live ledger
//
// A record that is no row of its table is logged and skipped; the previous row stays. A row
// of a newer schema version ends Run: its content must not be missed.
//
// File map:
//
//	directory.go  opening, running, closing
//	rows.go       rows and index entries, written
//	read.go       rows and index entries, read
//	cache.go      API keys and endpoints that were read lately
//	wallets.go    wallets that nobody watches, told from others without a read
//	backfill.go   watches that the follower has something to do for
//	list.go       lists by account, in pages
//	fill.go       the goroutine that fills the store
//	fresh.go      confirming the tables' ends; freshness; the barrier
//	progress.go   positions, and waiting for them
//	await.go      waiting for a row's version
package directory
