// Package receipt implements receipts: evidence of delivery attempts that anyone can check without
// the service. It defines their format, creates them and verifies them
// (docs/decisions/receipts.md).
//
// It hides Merkle trees (golang.org/x/mod/sumdb/tlog) and signed notes (…/sumdb/note). It reads
// neither the history nor files: the caller passes the hashes of a log to create a receipt, and the
// published keys to verify one.
//
// Invariants:
//
//   - The proofs cover everything that a verified receipt shows: changing any field breaks a
//     proof, and unknown fields are errors.
//   - A new receipt is verified before it is returned.
//   - Sizes, and the numbers of logs, attempts and hashes, are bounded.
//
// File map:
//
//	receipt.go     the format of a receipt
//	checkpoint.go  the signed state of a log, and the keys
//	prove.go       creating a receipt
//	verify.go      verifying a receipt, also against an earlier one
package receipt
