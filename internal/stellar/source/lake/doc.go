// Package lake reads closed ledgers from a ledger lake: the files that Galexie
// exports, which hold ledgers in batches and are never changed.
//
// It hides where the files are (a folder, S3, GCS: see [Store]), how they are
// named (SEP-54), and their compression. A [Source] waits for the next file as
// the others wait for the next ledger; what does not pass by waiting is one of
// the errors of package ledger.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the one that was asked for, each
//     of which names the hash of the one before it. Nothing is skipped.
//   - A file of several ledgers is fetched and decompressed once while reading
//     goes forward; at most as many files as the configuration says are fetched
//     ahead.
//   - What a file may weigh is bounded, as it is and decompressed.
//
// File map:
//
//	layout.go  names of files, the manifest
//	store.go   Store, and the one that is a folder
//	source.go  Source: ledgers in order
//	object.go  S3 and GCS
//	writer.go  a lake of one's own, on a folder: what devnet exports
package lake
