// Package source provides closed ledgers.
//
// It contains what the different kinds of sources have in common; the packages below implement
// them. Sources return ledgers as [ledger.Raw]. A [Reader] converts them to the domain's ledgers
// with their payments.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the requested one on. Each contains the hash of the
//     previous one, and none is skipped.
//   - A ledger is checked against its hashes before Next returns it
//     (docs/decisions/verified-ledgers.md). A ledger that doesn't match is reported and requested
//     again.
//   - Next returns a domain.LedgerError if waiting does not help, and waits otherwise.
//   - A Lookup never fails. If something can't be determined in time, it returns a warning.
//
// File map:
//
//	source.go    Source; Looker: a source that can be queried without waiting; Watched and Alone: the
//	             state of a reader's sources; parsing of addresses and removing them from errors
//	poll.go      Poll: waiting for ledgers and servers
//	chain.go     verification of ledgers and their sequence; trusted ledgers
//	lookup.go    Lookup: can a wallet receive an asset; Accounts: balances of an account
//	reader.go    Reader: converts a source's ledgers to the domain's
package source
