// Package oracle holds tests that compare the payments that package ledger finds with those that
// the Stellar SDK's own processors/token_transfer finds in the same ledgers. It exports nothing.
//
// It is a separate module, because that processor depends on 59 modules (including the SDKs of
// three clouds) that Lumenhook does not need. `make test` runs it. When the SDK's version in the
// main go.mod changes, run `go mod tidy` in this folder.
//
// The processor reports every movement of a token, and payments in its own way. Each kind of
// difference is a value in rules_test.go. A difference that none of them covers fails the test, and
// so does a rule that no ledger needs.
//
// The SDK's readers, its verifier of balances and its change compactor are the consumer that every
// ledger of the development network must satisfy.
//
// File map:
//
//	oracle_test.go     the tests, and the comparison
//	consult_test.go    the processor's result, event by event
//	rules_test.go      the allowed differences
//	synthetic_test.go  handmade ledgers, for rare cases
//	consumer_test.go   the development network's ledgers as an indexer reads them
package oracle
