// Package lake reads closed ledgers from a ledger lake: files with batches of ledgers, which
// Galexie exports and which never change.
//
// It hides where the files are stored (in a folder, S3 or GCS; see [Store]), their names (SEP-54)
// and their compression. A [Source] waits for the next file.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the requested one on. Each contains the hash of the
//     previous one, and none is skipped.
//   - While reading forward, each file is fetched and decompressed only once. At most the
//     configured number of files are fetched ahead.
//   - The compressed and the decompressed size of a file are limited.
//
// File map:
//
//	layout.go  file names and the manifest
//	store.go   Store, and its implementation for a folder
//	source.go  Source: reads ledgers in order
//	object.go  Store for S3 and GCS
//	writer.go  writes a lake to a folder, for tests
package lake
