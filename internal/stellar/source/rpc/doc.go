// Package rpc reads closed ledgers from a Stellar RPC server, and looks up
// accounts there.
//
// It hides the JSON-RPC protocol, and everything that a server may do wrong: be
// down, lag, answer with garbage, skip ledgers. A [Source] waits while that may
// pass and says so once; what does not pass is a
// domain.LedgerError (another network, a fork, a ledger that is no longer kept).
//
// Invariants:
//
//   - Next returns consecutive ledgers from the one that was asked for,
//     each of which names the hash of the one before it. Nothing is skipped.
//   - With several servers, one after the other is asked when one is not well;
//     what waiting does not help counts when all of them say so.
//   - The body of an answer is bounded, and decoded as it comes. A page that is too
//     large is asked for again in halves; pages grow again with what their ledgers weigh.
//   - Pages are fetched before they are due: aheadMax at most, each bounded. One that
//     fails is asked for again when it is due.
//   - A server that asks for patience (Retry-After) is not asked before, for
//     ten minutes at most.
//   - A server's address is logged as its host only: providers put keys into
//     paths.
//
// File map:
//
//	client.go    one JSON-RPC call
//	page.go      an answer full of ledgers is read
//	ahead.go     pages that are fetched before they are due
//	source.go    Source: ledgers in order
//	lookup.go    what the server knows of a wallet
//	holdings.go  what an account holds
package rpc
