// Package sealing encrypts secrets at rest: it seals them with AES-256-GCM before they are
// written to a topic, and opens them where they are used.
//
// It hides Tink and the master key's file. A sealed value begins with Tink's
// prefix (0x01 and the key's id), then nonce, ciphertext and tag, so that a file
// may hold several keys: the newest seals, all open.
//
// Invariants:
//
//   - The file belongs to its owner alone (mode 0600 or less). Any other mode is
//     refused, with one exception: root's file that a process of another user reads
//     through its group, as platforms mount secrets.
//   - The file is created atomically, and is on the disk before any of its keys seals.
//     Two processes that create it at once end up with one key.
//   - A sealed value opens only with the associated data it was sealed with, such
//     as the id of the endpoint it belongs to, so it cannot be moved elsewhere.
//   - A new key replaces none, so what was sealed with an older one still opens. A key
//     can be distributed to every process before any of them seals with it (staged). A key
//     is dropped only by its id, and never the one that seals; the caller makes sure that
//     nothing is left that only this key opens.
//   - No error contains plaintext, ciphertext or key.
//
// File map:
//
//	sealing.go  sealing and opening
//	keyfile.go  the master key's file
//	place.go    where it is: a file, a data folder, or a variable
//	rotate.go   adding keys to it, and dropping them
package sealing
