// Package source is where closed ledgers come from.
//
// It hides what the kinds of sources share, and which of them a [Reader] reads from:
// the packages below this one are such kinds. They give ledgers as [ledger.Raw]; a
// Reader gives them as the domain knows them, with the payments in them.
//
// Invariants:
//
//   - Next of every source returns consecutive ledgers from the one that was
//     asked for, each of which names the hash of the one before it. Nothing is skipped.
//   - What a ledger holds is proved by its hashes before Next returns it, where its source gives
//     the whole of it (docs/decisions/verified-ledgers.md). One that is not what they say is
//     reported and asked for again.
//   - It fails with a domain.LedgerError, where waiting does not help, and otherwise
//     waits.
//   - A Lookup never fails: what cannot be found out in time is a warning of its own.
//
// File map:
//
//	source.go    Source, and Looker: one that can be asked without being waited for; Watched and
//	             Alone: how its sources stand; addresses of servers, and errors without them
//	poll.go      Poll: waiting for ledgers and servers
//	chain.go     each ledger is what its hashes say and follows the one before it; a ledger whose
//	             hash is known
//	lookup.go    Lookup: can a wallet receive an asset yet; Accounts: what an account holds
//	reader.go    Reader: from a source's ledgers to the domain's
package source
