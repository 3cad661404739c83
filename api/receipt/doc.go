// Package receipt is evidence of attempts that is checked without the service: what a receipt
// says, how it is made, and its verification (docs/decisions/receipts.md).
//
// It hides Merkle trees (golang.org/x/mod/sumdb/tlog) and signed notes (…/sumdb/note). It reads
// no history and no file: who makes a receipt gives it the hashes of a log, who verifies one the
// published keys.
//
// Invariants:
//
//   - What a verified receipt shows is covered by its proofs: there is no field that could be
//     another without a proof failing, and an unknown field is refused.
//   - A receipt that is made is verified before it is given out.
//   - Sizes, and the number of logs, attempts and hashes, are bounded.
//
// File map:
//
//	receipt.go     the form of a receipt
//	checkpoint.go  the signed state of a log, and the keys
//	prove.go       making one
//	verify.go      verifying one, also against an earlier one
package receipt
