// Package trial tries the real program from outside: random operations through the
// public API over several accounts, payments of all kinds on its development
// network, receivers that misbehave, kills in windows that are held open, lost state,
// rebuilds under load; and exact accounting at the end. It imports nothing of the
// product (internal/arch holds that): what it expects, it knows from the
// specification and from what it asked for itself.
//
// A run is a script of operations on a fresh data folder. A script is a function of
// its seed; what time brings differs from run to run. Lanes work their operations in
// order and beside each other: one for each account (a0…), one for each payer (p0…),
// one for what happens to the program (chaos). Operations name what they act on by
// slots, so a script with operations left out is a script: that is how a failure is
// shrunk.
//
// What a client asked for takes effect at a ledger that nobody outside can know
// exactly. Each version of a watch has two edges: ledgers that had been read when it
// was asked for, and those that closed after the answer. A payment between the edges
// may have been judged by either version, but by one: it has one event, with one
// body, at one endpoint.
//
// File map:
//
//   - op.go, generate.go: operations, and scripts of them
//   - world.go, run.go: a run from its start to its report
//   - service.go: the program's process, and what is done to it; disturb.go
//   - operate.go, endpoints.go, watches.go, others.go, client.go: operations by the API
//   - chain.go, pay.go: payments
//   - receiver.go: receivers
//   - model.go, rules.go: what is known to be true
//   - calm.go: letting everything come to its end
//   - books.go, posts.go, lists.go: holding what is seen against the model
//   - shrink.go: a short script of a long one
package trial
