// Package trial tests the real program from outside: with random operations through the public API
// on several accounts, payments on a devnet whose RPC lies, misbehaving receivers, kills in windows
// that are held open, lost state, rebuilds under load, and a network reset. At the end it accounts
// for everything exactly. It imports nothing of the product (internal/arch checks that). Its
// expectations come from the specification (package draw) and from its own requests.
//
// A run is a script of operations on a fresh data folder. The script is a function of its seed; the
// timing differs from run to run. Lanes run concurrently, each with its operations in order: one
// per account (a0…), one per payer (p0…), and one for operations on the program (chaos). Operations
// refer to objects by slots, so a script is still valid if operations are left out. This makes it
// possible to shrink a failing script.
//
// From outside, it is impossible to know exactly at which ledger a client's change takes effect. So
// each version of a watch has two bounds: ledgers that had been read before the request don't see
// it, and ledgers that closed after the response do. Either version may have matched a payment in
// between, but only one of them: the payment has one event with one body at one endpoint.
//
// File map:
//
//   - op.go, generate.go: operations, and drawing and shrinking scripts of them
//   - world.go, run.go: a run from start to report
//   - service.go, disturb.go: the program's process, and operations on it
//   - operate.go, endpoints.go, watches.go, others.go, client.go: operations through the API
//   - chain.go, pay.go: payments; sources.go: three sources of ledgers, one of which lies
//   - hostile.go: a tenant that attacks the others
//   - receiver.go: receivers
//   - model.go: the expectations
//   - calm.go: letting everything finish
//   - observed.go, posts.go, lists.go: comparing observations with the model
package trial
