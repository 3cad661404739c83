// Package keys keeps the keys of a deployment: the master key, which encrypts secrets at rest, the
// Ed25519 keys that sign deliveries whose endpoint asks for it (docs/decisions/signatures.md), and
// a run's own certificate authority.
//
// It hides Tink and X.509, the files of the keys, and which signing key signs when. A sealed value
// begins with Tink's prefix (0x01 and the key's id), then nonce, ciphertext and tag, so that a file
// may hold several keys: the newest seals, all open.
//
// Invariants of the master key:
//
//   - The file belongs to its owner alone (mode 0600 or less). Any other mode is refused, with one
//     exception: root's file that a process of another user reads through its group, as platforms
//     mount secrets.
//   - The file is created atomically, and is on the disk before any of its keys seals. Two
//     processes that create it at once end up with one key.
//   - A sealed value opens only with the associated data it was sealed with, such as the id of the
//     endpoint it belongs to, so it cannot be moved elsewhere.
//   - A new key replaces none, so what was sealed with an older one still opens. A key can be
//     distributed to every process before any of them seals with it (staged). A key is dropped only
//     by its id, and never the one that seals; the caller makes sure that nothing is left that only
//     this key opens.
//   - No error contains plaintext, ciphertext or key.
//
// Invariants of signing keys:
//
//   - A key of the file is published, from when it was made until it is dropped.
//   - A key signs from its time on, and until a day after the next one began to: both sign
//     that day. A key that follows another begins at least two hours after it was made, so that
//     every process and every receiver's copy of the published keys has it before.
//   - The webhooks of an endpoint are signed with its own keys, which are derived from those of the
//     file: no two endpoints have the same key. The keys of the file themselves sign receipts.
//   - A key is dropped at the earliest 30 days after it signed last, unless all are replaced, as
//     after a theft.
//   - Running processes follow the file within a second. When it cannot be read, they keep the keys
//     that they know, and say so once. The private keys in the file are sealed with the master key.
//
// Invariants of the certificate authority, whose certificate is constrained to loopback names and
// addresses, so that trusting it trusts nothing else:
//
//   - P1 The key and its certificate are one file, written by rename: a kill at any moment leaves
//     the old authority or the new one, never half of each.
//   - P2 Private keys are readable by their owner alone (0600, folder 0700).
//   - P3 A certificate near its end is renewed with the same key and name, so what the authority
//     issued before stays valid under the new certificate.
//
// File map:
//
//	sealing.go    sealing and opening
//	masterkey.go  the master key: where it is, its file, and changes of it
//	signing.go    signing keys: their file, when each signs, and the keys of a running process
//	ca.go         the certificate authority, and the certificates that it issues
package keys
