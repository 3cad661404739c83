// Package follower reads closed ledgers in order and tells the log which
// payments reached watched wallets, and what each watch makes of them.
//
// It hides the cursor, the election, and the order of writing. For each ledger:
//
//  1. the watches are caught up to the end of their topic, so that a watch that
//     was acknowledged before the ledger closed sees it;
//  2. PaymentObserved and PaymentMatched are appended and acknowledged;
//  3. LedgerRead is appended: the cursor.
//
// A crash between 2 and 3 reads the ledger again and appends the same
// identifiers again; readers collapse them, and the first one wins.
//
// Not every payment is income: one to oneself is a trade over a path, and an
// account can be created, merged or credited by a contract with nothing. These
// are neither observed nor matched.
//
// Invariants:
//
//   - Ledgers are read in order, none is skipped: what cannot be read, or a chain
//     that does not fit, ends Run with an error.
//   - One follower of a deployment is active: the one that holds the partition of
//     the topic "ledgers" in the group. Another may still be finishing a ledger
//     when it has lost the partition unawares; what it then appends are
//     duplicates by identifier.
//   - A deployment serves one network: a cursor of another is an error.
//
// File map:
//
//	follower.go  Config, Follower, Run and the election
//	reading.go   what following needs of the log
//	follow.go    reading from the cursor on
//	cursor.go    the cursor in the topic "ledgers"
//	sift.go      from a ledger to observed payments and matches
//	start.go     where to begin when there is no cursor
package follower
