// Package rpc reads closed ledgers from a Stellar RPC server, and looks up accounts there.
//
// It hides the JSON-RPC protocol and the problems of a server that is down, lags, returns garbage
// or skips ledgers. A [Source] waits until a temporary problem is resolved, and logs it once.
// Permanent problems are a domain.LedgerError: another network, a fork, or a ledger that is no
// longer stored.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the requested one on. Each contains the hash of the
//     previous one, and none is skipped.
//   - The size of a response is limited, and the response is decoded while it arrives. If a page is
//     too large, half of it is requested. Pages grow again if their ledgers are small enough.
//   - At most aheadMax pages are prefetched, each of limited size. A page whose prefetch failed is
//     requested again when it is due.
//   - If a server requests to wait (Retry-After), a client doesn't query it for that time, but for
//     at most ten minutes.
//   - Only the host of a server's address is logged, because providers put keys into paths.
//
// File map:
//
//	client.go    JSON-RPC calls
//	page.go      decodes a response with ledgers
//	ahead.go     prefetching of pages
//	source.go    Source: reads ledgers in order
//	lookup.go    a server's information about a wallet
//	transaction.go  a transaction by its hash, with its payments
//	holdings.go  an account's balances
package rpc
