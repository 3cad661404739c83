// Package ledger turns one closed Stellar ledger into the payments in it.
//
// It hides the ledger's binary form (XDR) and the Stellar SDK that knows it: nothing outside
// internal/stellar sees either. Sources of ledgers (package source) return [Raw] ledgers, and an
// [Extractor] turns them into ledgers of the domain.
//
// Payments are the operations that a Horizon server lists under /payments, if it reaches a G
// address and belongs to a successful transaction:
//
//   - payment, path_payment_strict_receive (destination amount), path_payment_strict_send (amount
//     from the result), create_account, account_merge (amount from the result);
//   - transfers and mints of Stellar Asset Contracts inside invoke_host_function, if the contract
//     is the named asset's on this network. Any contract may emit a similar event; only the
//     contract identifier cannot be forged.
//
// Claims of claimable balances, trades, withdrawals from pools, clawbacks and fees are not
// payments. Some of the listed payments are not income either: a path payment to oneself, or an
// account created with nothing in it. They are extracted nevertheless, so that the list agrees with
// Horizon's. The caller that matches payments skips them.
//
// Invariants:
//
//   - A payment has the same identifier whatever source its ledger came from: the operation's TOID
//     (SEP-35) in decimal, and for contract calls "-n", where n counts the balance changes of the
//     operation from 0 in Horizon's order (transfer, mint, clawback and burn, to any address).
//   - A transaction that failed yields nothing.
//   - Extract either parses the whole ledger, or fails. A transaction whose place in the ledger is
//     known but whose content is invalid is quarantined: it is listed in the ledger's Quarantined,
//     and none of its payments is reported.
//
// Balance moves are derived from the changes of accounts and trust lines in the metas, which no
// hash covers (docs/decisions/statements.md). They are read only on request, for the requested
// wallets.
//
// A ledger is parsed in two steps: locate finds the bytes of every transaction (envelope, result,
// meta) with the SDK's views, which decode nothing, and then each successful transaction is read
// separately. If the SDK meets a form that it does not know, such as an operation of a newer
// protocol, it cannot skip it, because XDR does not say how long an unknown value is. Then salvage
// separates the transactions by their hashes, and only those with an unknown form are quarantined.
// If a contract call has an unknown form among its arguments (such as a W address, CAP-84), its
// payments are read nevertheless, from the memo before the arguments and the meta up to the
// operation's events. Unknown forms outside the transactions fail the ledger.
//
// File map:
//
//	ledger.go     Extractor: a ledger's bytes become its transactions
//	header.go     the ledger header, and its newer forms (CAP-88)
//	batch.go      splits the batches of ledgers in files
//	locate.go     where each transaction's parts are
//	scan.go       steps through XDR: transactions and the operations that are payments
//	salvage.go    the same around unknown forms
//	apart.go      resolves copied hashes of transactions
//	verify.go     checks a ledger against its hashes
//	judge.go      unreadable parts: damage, or a newer form
//	unproved.go   the same if the length of a part is unknown
//	rewritten.go  the same for events that were rewritten since they were hashed
//	former.go     tries the earlier forms of such events
//	payments.go   a transaction becomes payments: those of classic operations
//	names.go      names of accounts and assets
//	contract.go   payments of asset contracts
//	moves.go      which balances of chosen wallets changed
//	entries.go    the changes of ledger entries that show it
//	movekind.go   what changed them
//	results.go    results of transactions and operations
package ledger
