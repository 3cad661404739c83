// Package directory is the read model of the tables `accounts`, `endpoints`, `watches` and
// `key-uses`. Every API and follower node uses it to look up API keys, endpoints, and the watches
// of a wallet.
//
// It hides a Pebble store and the goroutine that fills it from all partitions of the tables, read
// committed. The store is a cache: if its folder is deleted, or if it belongs to other topics or
// another format, it is refilled from the tables.
//
// Invariants:
//
//   - Rows, index entries and checkpoints of a read change in one batch. A position is published
//     only after its batch is committed, so a reader that waited for a position sees everything
//     before it.
//   - The log's order decides: the last record of a key is its row, and an empty value deletes it.
//     Versions are not compared, because the engine's task is the only writer and is fenced (G4).
//   - Compaction may drop a tombstone 24 hours after it was written (delete.retention.ms). A store
//     that has not passed the tables' ends for 12 hours could therefore miss a deletion, and is
//     refilled from scratch. Do not set delete.retention.ms lower than a day on the tables.
//   - A table's end is its high watermark. A read-committed reader that has reached it has seen
//     everything that was acknowledged before the request, including records of transactions that
//     were still open.
//   - Memory contains nothing per endpoint or account, except a bounded number of recently read
//     rows (cache.go), and only the hashes of watched wallets (wallets.go), about 12 bytes each.
//
// Keys of the store, by their first byte; every entry is in the store's order:
//
//	0x10 account id            the row
//	0x11 endpoint id           the row
//	0x12 watch id              the row
//	0x13 key hash              the account's id
//	0x14 wallet, 0x00, hash    empty: the watches of a wallet, by a hash of their
//	     of account, 0x00,     account, then newest first
//	     inverted time, id
//	0x16                       when the store was last known to be complete
//	0x17 list, scope, 0x00,    empty: lists, newest first (list.go). The time is
//	     inverted time, id     the creation time, so that a row keeps its place
//	0x18 key id                when the key was last used
//	0x19 account, 0x00, id     empty: watches with a backfill in progress or an open part
//	0x1a watch id              empty: watches without a first live ledger
//	0x1b account id            the account's usage, then its quotas: 8 bytes each
//
// A record that is not a row of its table is logged and skipped, and the previous row stays. A row
// of a newer schema version stops Run, because its content must not be missed.
//
// File map:
//
//	directory.go  opening, running, closing
//	rows.go       rows and index entries, written
//	read.go       rows and index entries, read
//	cache.go      recently read API keys and endpoints
//	wallets.go    recognizes unwatched wallets without a read
//	backfill.go   watches that need work by the follower
//	list.go       lists by account, in pages
//	fill.go       the goroutine that fills the store
//	fresh.go      confirming the tables' ends; freshness; the barrier
//	progress.go   positions, and waiting for them
//	await.go      waiting for a row's version
package directory
