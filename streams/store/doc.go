// Package store keeps the state of one partition in Pebble: keys and values that change in batches,
// checkpoints, and an index of timers. It knows nothing of logs.
//
// It hides Pebble, when a state is synced to disk, and the store's own keys.
//
// Invariants:
//
//   - A state is a cache of its topic. After a crash it is the state after one of its batches,
//     never a part of one. A state in another format is emptied.
//   - A process that cannot write its state to disk exits.
//
// File map:
//
//	store.go    state on Pebble and its batches
//	flushes.go  flushing without a log; exits if a state cannot be written
//	timers.go   the timer index, by group and time
package store
