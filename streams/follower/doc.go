// Package follower reads closed ledgers in order and tells the log which
// payments reached watched wallets, and what each watch makes of them.
//
// It hides the cursor, the election, and the order of writing. Of the network it knows
// only a [Source]: ledgers of the domain, in order. For each ledger:
//
//  1. the watches are caught up to the end of their topic, so that a watch that
//     was acknowledged before the ledger closed sees it; those seen for the first
//     time are admitted: from which ledger on they are live is recorded;
//  2. PaymentObserved and PaymentMatched are committed;
//  3. LedgerRead is committed: the cursor.
//
// A crash between 2 and 3 reads the ledger again. What was observed and matched of
// it is read back and stands, a match with its endpoint and body; the rest is
// matched by the watches as they are then (docs/decisions/one-event.md).
//
// Beside the live ledger it carries out backfills: requests to hold ledgers of the
// past against one watch. They have a source of their own, go after the live
// ledger, and read it in parts, for each of which a fact has pinned the watch.
// That a range is covered is reported once all that is in it is acknowledged.
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
//     the topic "ledgers" in the group. Another may believe itself active when it
//     has lost the partition unawares; what it commits is refused, because the
//     transactional id was taken over.
//   - G2: an event is matched once, for one endpoint, with one body. A watch is
//     held against the ledgers from its LiveSince on, and no other.
//   - A deployment serves one network: a cursor of another is an error.
//
// File map:
//
//	follower.go  Config, Follower, Run and the election
//	reading.go   what following needs of the log
//	follow.go    reading from the cursor on
//	cursor.go    the cursor in the topic "ledgers"
//	judge.go     what stands already, and which watches see a ledger
//	sift.go      from a ledger to observed payments and matches
//	backfill.go  the past of a watch, read beside the live ledger
//	way.go       the live ledger's right of way
//	start.go     where to begin when there is no cursor
package follower
