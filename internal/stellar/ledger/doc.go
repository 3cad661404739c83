// Package ledger extracts the payments from closed Stellar ledgers.
//
// It hides the binary format of ledgers (XDR) and the Stellar SDK from everything outside
// internal/stellar. Sources of ledgers (package source) return [Raw] ledgers, which an [Extractor]
// converts to the domain's ledgers.
//
// Payments are those that a Horizon server lists under /payments, if they belong to a successful
// transaction and credit a G address:
//
//   - payment, path_payment_strict_receive (destination amount), path_payment_strict_send (amount
//     from the result), create_account, account_merge (amount from the result);
//   - transfers and mints of Stellar Asset Contracts in invoke_host_function, if the contract is
//     that of the named asset on this network. Any contract can emit such an event, but it can't
//     forge the contract ID.
//
// Claims of claimable balances, trades, pool withdrawals, clawbacks and fees are not payments. Some
// payments are not income, such as a path payment to oneself or the creation of an account without
// a balance. They are extracted anyway, so that the list matches Horizon's, and ignored when
// payments are matched.
//
// Invariants:
//
//   - A payment has the same ID regardless of the source of its ledger: the operation's TOID
//     (SEP-35) in decimal, and for contract calls "-n", where n counts the operation's balance
//     changes from 0 in Horizon's order (transfer, mint, clawback and burn, to any address).
//   - A failed transaction has no payments.
//   - Extract either parses the complete ledger or fails. If a transaction can be located but is
//     invalid, it is quarantined: it is listed in the ledger's Quarantined, and none of its
//     payments is reported.
//
// Balance moves are derived from the changes of accounts and trust lines in the metas, which no
// hash covers (docs/decisions/statements.md). They are only read on request, for the requested
// wallets.
//
// A ledger is parsed in two steps. First, locate finds the bytes of every transaction (envelope,
// result and meta) with the SDK's views, without decoding them. Then each successful transaction is
// read separately. If the SDK encounters an unknown form, such as an operation of a newer protocol,
// it can't skip it, because XDR doesn't encode the length of unknown values. In this case, salvage
// separates the transactions by their hashes, and only those with an unknown form are quarantined.
// If only the arguments of a contract call have an unknown form (such as a W address, CAP-84), its
// payments can still be read, from the memo before the arguments and from the meta up to the
// operation's events. Unknown forms outside of transactions fail the ledger.
//
// File map:
//
//	ledger.go     Extractor: converts a ledger's bytes
//	header.go     the ledger header, including the form of CAP-88
//	batch.go      splitting of files with several ledgers
//	locate.go     locates the parts of each transaction
//	scan.go       steps through XDR: transactions and payment operations
//	salvage.go    locates transactions around unknown forms
//	apart.go      resolves copied transaction hashes
//	verify.go     checks a ledger against its hashes
//	judge.go      decides whether unreadable parts are damaged or newer
//	unproved.go   verification of parts with an unknown length
//	rewritten.go  verification of events that were rewritten after they were hashed
//	former.go     tries the earlier forms of such events
//	payments.go   payments of a transaction, except contract calls
//	names.go      names of accounts and assets
//	contract.go   payments of asset contracts
//	moves.go      balance changes of selected wallets
//	entries.go    changes of ledger entries
//	movekind.go   causes of balance changes
//	results.go    results of transactions and operations
package ledger
