// Package sealing keeps secrets secret at rest: it seals them with AES-256-GCM
// before they enter a topic, and opens them where they are used.
//
// It hides Tink and the master key's file. A sealed value begins with Tink's
// prefix (0x01 and the key's id), then nonce, ciphertext and tag, so that a file
// may hold several keys: the newest seals, all open.
//
// Invariants:
//
//   - The file belongs to its owner alone (mode 0600 or less). Another mode is
//     refused, but for one: root's file that a process of another user reads through
//     its group, as platforms mount secrets.
//   - The file appears whole or not at all, and is on the disk before any key of it
//     seals. Two processes that make it at once end with one key.
//   - A sealed value opens only with the associated data it was sealed with, such
//     as the id of the endpoint it belongs to, so it cannot be moved elsewhere.
//   - A new key takes none away, so what was sealed with an older one still opens.
//     A key can be brought to every process before any of them seals with it
//     (staged). One is dropped only by name, and never the one that seals; whoever
//     drops it has seen to it that nothing is left that only it opens.
//   - No error holds plaintext, ciphertext or key.
//
// File map:
//
//	sealing.go  sealing and opening
//	keyfile.go  the master key's file
//	place.go    where it is: a file, a data folder, or a variable
//	rotate.go   adding keys to it, and dropping them
package sealing
