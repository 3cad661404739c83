// Package follower reads closed ledgers in order and appends to the log which payments reached
// watched wallets, and the event of each watch that matches.
//
// It hides the cursor, the election, and the order of writes. It knows the network only as a
// [Source] of ledgers in the domain's form. For each ledger, it:
//
//  1. reads the watches to the end of their topic, so that a watch that was acknowledged before the
//     ledger closed sees it, and records this ledger as the first one of new watches;
//  2. commits PaymentObserved, PaymentMatched, and BalanceMoved if the source reports moves;
//  3. commits LedgerRead, the cursor.
//
// If the process crashes between 2 and 3, the ledger is read again. Records that were already
// appended for it are read back and kept, each match with its endpoint and body. The rest is
// matched against the watches as they are then (docs/decisions/one-event.md).
//
// In parallel with the live ledger it runs backfills, which match past ledgers against one watch.
// They have their own source and transactional id, and yield to the live ledger. They are read in
// parts, for each of which a fact has pinned the watch. A range is reported as covered once
// everything in it is acknowledged. A part from an earlier term is not continued, but read back and
// ended (docs/decisions/backfill.md).
//
// Some payments are not income: a payment to oneself is a path trade, and accounts can be created,
// merged or credited by a contract with an amount of zero. These are neither observed nor matched.
//
// Invariants:
//
//   - Ledgers are read in order, and none is skipped. A ledger that cannot be read, or does not
//     follow its predecessor, is requested again until it can and does. In the meantime
//     [Follower.Check] reports why, and nothing else stops.
//   - One follower of a deployment is active: the group's owner of the partition of topic
//     "ledgers". Another may still believe that it is active after it has lost the partition. Its
//     commits fail, because the transactional id was taken over.
//   - G2: an event is matched once, for one endpoint, with one body. A watch is matched only
//     against ledgers from its LiveSince on.
//   - A deployment serves one network: a cursor of another network is an error.
//
// File map:
//
//	follower.go  Config, Follower, Run and the election
//	reading.go   a follower without its election, and the log that it needs
//	follow.go    reading from the cursor on
//	cursor.go    the cursor in the topic "ledgers", also for other programs; where to begin
//	readback.go  records that were appended before
//	admit.go     which watches see a ledger
//	match.go     a ledger's payments to watched wallets, their matches, and changes of balances
//	once.go      watches for one payment: which payment it is
//	backfill.go  the past of a watch, read in parallel with the live ledger, which has priority
//	parts.go     parts of a backfill: read, read back, and appended once
//	known.go     which events a watch has, when its ledgers are matched again
//	needed.go    the part of the log that a follower may still read back, committed to the group
//	followed.go  the followed ledgers, against which backfills are checked; a trusted ledger before
//	             the cursor
//	chains.go    the chains of a network that is reset, and the numbers of their ledgers
//	health.go    whether ledgers are being read
package follower
