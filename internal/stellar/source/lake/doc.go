// Package lake reads closed ledgers from a ledger lake: the files that Galexie exports, which hold
// ledgers in batches and never change.
//
// It hides where the files are (a folder, S3, GCS: see [Store]), their names (SEP-54), and their
// compression. A [Source] waits for the next file like the others wait for the next ledger.
// Permanent problems are errors of package ledger.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the requested one, each of which contains the hash of
//     the previous one. Nothing is skipped.
//   - A file of several ledgers is fetched and decompressed once while reading forward. At most as
//     many files as configured are fetched ahead.
//   - The size of a file is bounded, compressed and decompressed.
//
// File map:
//
//	layout.go  names of files, the manifest
//	store.go   Store, and the one that is a folder
//	source.go  Source: ledgers in order
//	object.go  S3 and GCS
//	writer.go  makes a lake in a folder, for tests
package lake
