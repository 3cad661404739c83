// Package source provides closed ledgers.
//
// It hides what the kinds of sources share, and which of them a [Reader] reads from: the packages
// below this one are such kinds. They return ledgers as [ledger.Raw]; a Reader returns them in the
// form of the domain, with their payments.
//
// Invariants:
//
//   - Next of every source returns consecutive ledgers from the requested one, each of which
//     contains the hash of the previous one. Nothing is skipped.
//   - The content of a ledger is proved by its hashes before Next returns it, if its source returns
//     the whole ledger (docs/decisions/verified-ledgers.md). A ledger that does not match them is
//     reported and requested again.
//   - It fails with a domain.LedgerError if waiting does not help, and otherwise waits.
//   - A Lookup never fails: a fact that cannot be found in time becomes a warning.
//
// File map:
//
//	source.go    Source, and Looker: one that can be queried without waiting; Watched and Alone: the
//	             state of its sources; addresses of servers, errors without them, Retry-After
//	poll.go      Poll: waiting for ledgers and servers
//	chain.go     each ledger matches its hashes and follows the previous one; a ledger whose hash is
//	             known
//	lookup.go    Lookup: can a wallet receive an asset yet; Accounts: an account's balances
//	reader.go    Reader: from a source's ledgers to the domain's
package source
