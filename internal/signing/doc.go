// Package signing keeps the deployment's Ed25519 keys, with which deliveries are signed whose
// endpoint asks for it (docs/decisions/signatures.md).
//
// It hides the file of the keys and who signs when. The private keys in the file are sealed
// with the master key; the rest of it is public.
//
// Invariants:
//
//   - A key of the file is published, from when it was made until it is dropped.
//   - A key signs from its time on, and until a day after the next one began to: both sign
//     that day. A key that follows another begins at least two hours after it was made, so
//     that every process and every receiver's copy of the published keys has it before.
//   - A key is dropped at the earliest 30 days after it signed last, unless all are replaced,
//     as after a theft.
//   - The file changes atomically, by one process at a time, and running processes follow it
//     within a second. When it cannot be read, they keep the keys that they know,
//     and say so once.
//   - No error contains a private key.
//
// File map:
//
//	keys.go  the keys, and when each signs
//	file.go  making, rotating and dropping them, and sealing them anew
//	ring.go  the keys in a running process
package signing
