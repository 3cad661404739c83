// Package rpc reads closed ledgers from a Stellar RPC server, and looks up accounts there.
//
// It hides the JSON-RPC protocol, and everything that can go wrong with a server: being down,
// lagging, returning garbage, skipping ledgers. A [Source] waits out temporary problems and logs
// them once. Permanent ones are a domain.LedgerError (another network, a fork, a ledger that is no
// longer stored).
//
// Invariants:
//
//   - Next returns consecutive ledgers from the requested one, each of which contains the hash of
//     the previous one. Nothing is skipped.
//   - With several servers, the next one is queried when one has a problem. A permanent error
//     counts when all of them return it.
//   - The body of an answer is bounded, and decoded as it arrives. A page that is too large is
//     requested again in halves; pages grow again with the size of their ledgers.
//   - Pages are fetched before they are due: aheadMax at most, each bounded. One that fails is
//     requested again when it is due.
//   - A server that asks to wait (Retry-After) is not queried before, for ten minutes at most.
//   - Only the host of a server's address is logged, because providers put keys into paths.
//
// File map:
//
//	client.go    one JSON-RPC call
//	page.go      reads an answer full of ledgers
//	ahead.go     pages that are fetched before they are due
//	source.go    Source: ledgers in order
//	lookup.go    a server's information about a wallet
//	transaction.go  a transaction by its hash, with its payments
//	holdings.go  an account's balances
package rpc
