// Package oracle holds tests that set the payments which package ledger finds
// beside what the Stellar SDK's own processors/token_transfer finds in the same
// ledgers. There is nothing in it to use.
//
// It is a module of its own, because that processor drags in 59 modules (the SDKs
// of three clouds among them) that Lumenhook neither needs nor wants to answer
// for. `make test` runs it. Where the SDK's version in the main go.mod moves on,
// run `go mod tidy` in this folder.
//
// The processor reports every movement of a token, and of payments in its own
// way. Each kind of difference is a value in rules_test.go; what none of them
// covers fails the test, and so does a rule that no ledger needs.
//
// The SDK's readers, its verifier of balances and its change compactor are the
// consumer that every ledger of the development network must satisfy.
//
// File map:
//
//	oracle_test.go     the tests, and the comparison
//	consult_test.go    what the processor tells, event by event
//	rules_test.go      the allowed differences
//	synthetic_test.go  ledgers made by hand, for what is seldom
//	consumer_test.go   the development network's ledgers as an indexer takes them
package oracle
