// Package reconcile holds the statement of a wallet against what a live source says that the
// wallet's account holds.
//
// It hides how both come to be of one ledger: the source tells the balances after its newest
// ledger, and the statement ends there, once the service has read so far.
//
// Invariants:
//
//   - What is compared is of one ledger. A service or a source that is behind is an error, and
//     never a difference.
//   - Waiting is bounded by Check.Timeout.
//   - A balance of which no move is recorded is shown, and is neither equal nor different: nothing
//     is known of it.
//
// File map:
//
//	check.go   Check: both are read
//	report.go  Report: what came of it, in columns and as an error
package reconcile
