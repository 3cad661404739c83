// Package trial tests the real program from outside: random operations through the public
// API over several accounts, payments on a development network whose RPC lies, receivers that
// misbehave, kills in windows that are held open, lost state, rebuilds under load, a reset of
// the network; and exact accounting at the end. It imports nothing of the product
// (internal/arch checks that): its expectations come from the specification
// (package draw) and from its own requests.
//
// A run is a script of operations on a fresh data folder. A script is a function of its
// seed; timing differs from run to run. Lanes run concurrently, each with its operations in
// order: one for each account (a0…), one for each payer (p0…), one for operations on the
// program (chaos). Operations name their objects by slots, so a script with operations left
// out is still a script: that is how a failure is shrunk.
//
// A client's change takes effect at a ledger that cannot be known exactly from outside.
// Each version of a watch has two bounds: ledgers that had been read before the request do
// not see it, and those that closed after the answer do. A payment in between may have been
// matched by either version, but by one: it has one event, with one body, at one endpoint.
//
// File map:
//
//   - op.go, generate.go: operations, and scripts of them, drawn or shrunk
//   - world.go, run.go: a run from its start to its report
//   - service.go: the program's process, and operations on it; disturb.go
//   - operate.go, endpoints.go, watches.go, others.go, client.go: operations by the API
//   - chain.go, pay.go: payments; sources.go: three sources of ledgers, one of which lies
//   - hostile.go: a tenant that attacks the others
//   - receiver.go: receivers
//   - model.go: the expectations
//   - calm.go: lets everything finish
//   - observed.go, posts.go, lists.go: compare observations with the model
package trial
