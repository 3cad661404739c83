// Package ledger turns one closed Stellar ledger into the payments in it.
//
// It hides the ledger's binary form (XDR) and the Stellar SDK that knows it: nothing
// outside internal/stellar sees either. Sources of ledgers (package source) give [Raw]
// ledgers, an [Extractor] makes ledgers of the domain of them.
//
// What counts as a payment is what a Horizon server lists under /payments, as
// far as it reaches a G address and belongs to a successful transaction:
//
//   - payment, path_payment_strict_receive (destination amount),
//     path_payment_strict_send (amount from the result), create_account,
//     account_merge (amount from the result);
//   - transfers and mints of Stellar Asset Contracts inside
//     invoke_host_function, if the contract is that of the named asset on this
//     network. Anybody may emit an event that looks like one; only the contract
//     identifier cannot be had by others.
//
// Claims of claimable balances, trades, withdrawals from pools, clawbacks and
// fees are no payments. Some of what is listed is no income either: a path
// payment to oneself, or an account created with nothing in it. They are
// extracted all the same, so that the list agrees with Horizon's; whoever
// matches leaves them out.
//
// Invariants:
//
//   - A payment has the same identifier whatever source its ledger came from:
//     the operation's TOID (SEP-35) in decimal, and for contract calls "-n", n
//     counting the balance changes of the operation from 0 as Horizon lists
//     them (transfer, mint, clawback and burn, to whomever).
//   - A transaction that failed yields nothing.
//   - Either the whole ledger could be taken apart, or Extract fails. A transaction
//     whose place in the ledger is known but which does not make sense is quarantined:
//     named in the ledger's Quarantined, and none of its payments is reported.
//
// Balance moves are made of the changes of accounts and trust lines in the metas, which no hash
// covers (docs/decisions/statements.md). They are read only when somebody asks, and asks with the
// wallets that matter.
//
// A ledger is taken apart in two steps, which are the seam for a newer SDK:
// locate finds the bytes of every transaction (envelope, result, meta) without
// decoding them, and each successful transaction is then read on its own. A scanner
// does so for ledgers of plain forms, in one pass; what it does not know, or what is
// damaged, it leaves to the SDK, which decides what that is. Where the SDK meets a
// form that it does not know, such as an operation of a newer protocol, it cannot be
// stepped over, since XDR does not say how long an unknown thing is. Then salvage
// tells the transactions apart by their hashes,
// and only those with an unknown form are quarantined. Of a contract call with an
// unknown form among its arguments (such as a W address, CAP-84) what payments are
// made of is read all the same: the memo before them, and the meta up to the
// operation's events. What is unknown outside the transactions fails the ledger.
//
// File map:
//
//	ledger.go     Extractor: a ledger's bytes become its transactions
//	header.go     the ledger header, and its newer forms (CAP-88)
//	batch.go      ledgers in files: batches, streams, compression, base64
//	locate.go     where each transaction's parts are
//	scan.go       the same for plain forms, in one pass
//	salvage.go    the same around forms that are not known
//	apart.go      where hashes of transactions were copied
//	hashes.go     what is hashed, all of a ledger at once
//	verify.go     a ledger is what its hashes say
//	judge.go      what cannot be read: damage, or a newer form
//	unproved.go   the same where nobody knows how long something is
//	rewritten.go  the same of events that were rewritten since they were hashed
//	former.go     trying out what such events were
//	payments.go   a transaction becomes payments: those of classic operations
//	contract.go   payments of asset contracts
//	moves.go      which balances of chosen wallets changed
//	entries.go    the changes of entries that say so
//	movekind.go   what changed them
//	results.go    what the results of transactions and operations say
//	workspace.go  memory that is used for one ledger after the other
package ledger
