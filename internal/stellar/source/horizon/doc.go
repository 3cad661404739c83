// Package horizon reads closed ledgers, and the payments in them, from a Horizon
// server.
//
// It hides the REST API: pages by cursor, amounts that are missing from merges
// (they are taken from the transaction's result), memos in their encodings, rate
// limits. Horizon gives no ledger's XDR, so a [Source] gives ledgers that
// are read already; they hold the same payments under the same identifiers as
// the XDR does.
//
// Invariants:
//
//   - Next returns consecutive ledgers from the one that was asked for, each
//     of which names the hash of the one before it. Nothing is skipped: a server
//     whose history begins later is refused.
//   - A server that asks for patience (429, Retry-After) gets it.
//   - The body of an answer, and the pages of one call, are bounded.
//
// The address must be of one server, or of several on one database: of two that
// are not equally far, the one might list a ledger whose payments the other
// does not have yet.
//
// File map:
//
//	client.go    one request, and what its failure means
//	source.go    Source: ledgers in order
//	payment.go   from a record of the list to a payment
//	lookup.go    what the server knows of a wallet
//	holdings.go  what an account holds
package horizon
