// Package keys manages the keys of a deployment: the master key, which encrypts secrets at rest;
// the Ed25519 keys for signing deliveries, if an endpoint has enabled that
// (docs/decisions/signatures.md); and the local certificate authority of `lumenhook run`.
//
// It hides Tink and X.509, the key files, and the rules for when each signing key is used. An
// encrypted value starts with Tink's prefix (0x01 and the key's ID), followed by the nonce, the
// ciphertext and the tag. A file can therefore contain several keys: the newest one encrypts, and
// all of them decrypt.
//
// Invariants of the master key:
//
//   - The file is only accessible to its owner (mode 0600 or less). Any other mode is refused,
//     except for a file of root that the process of another user reads through its group, because
//     platforms mount secrets like this.
//   - The file is created atomically, and is on disk before any of its keys is used. If two
//     processes create it at the same time, both use the same key.
//   - A value can only be decrypted with the same associated data, such as the ID of its endpoint,
//     so it can't be moved elsewhere.
//   - Old keys remain after a rotation and still decrypt. A staged key can be distributed to all
//     processes before it is used to encrypt. Keys are only dropped by ID. The key that encrypts
//     can't be dropped. The caller must ensure that no values need the dropped key.
//   - Errors contain no plaintexts, ciphertexts or keys.
//
// Invariants of signing keys:
//
//   - A key in the file is published from its creation until it is dropped.
//   - A key signs from its start time until one day after the next key's start time, so both sign
//     on that day. Except for the first key, the start time is at least two hours after the
//     creation. By then, all processes and all receivers that cache the published keys have the new
//     key.
//   - Webhooks are signed with keys that are derived from those in the file and are different for
//     each endpoint. The keys in the file themselves sign receipts.
//   - A key is not dropped until 30 days after it last signed, unless all keys are replaced, for
//     example after a theft.
//   - Running processes pick up changes of the file within a second. If they can't read it, they
//     continue to use the known keys and log this once. The private keys in the file are encrypted
//     with the master key.
//
// Invariants of the certificate authority, whose certificate is limited to loopback names and
// addresses, so that trusting it is safe:
//
//   - P1: The key and its certificate are in one file, which is replaced by rename. If the process
//     is killed, either the old or the new authority remains.
//   - P2: Private keys are only readable by their owner (0600, in a folder with 0700).
//   - P3: A certificate that is about to expire is renewed with the same key and name, so that
//     certificates issued earlier stay valid.
//
// File map:
//
//	sealing.go    encrypting and decrypting values
//	masterkey.go  the master key: where it is, its file, and its rotation
//	signing.go    signing keys: their file, when each one signs, and those of a running process
//	ca.go         the certificate authority and its certificates
package keys
