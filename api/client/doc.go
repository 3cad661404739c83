// Package client is a client of Lumenhook's API. It hides HTTP: the headers, problem+json,
// and the retries that a network requires.
//
// Each operation of schemas/openapi.yaml has one method of its operationId's name, and each
// object one struct. A test compares both with the document.
// The API encodes its answers from the same structs. The tags of filters and bodies also describe
// their fields to the command line, its completion, assistants and the console
// (docs/decisions/command-line.md).
//
// Invariants:
//
//   - Every write carries an Idempotency-Key. It is repeated, with the same key, when no
//     answer arrived, or one with Retry-After: so it takes effect once.
//   - A refusal is a *Problem.
//   - Time, size of an answer, and number of repeats are bounded.
//
// File map:
//
//	client.go     one call, with its repeats and its refusal
//	lists.go      pages of lists
//	endpoints.go  endpoints, and what is done with them
//	watches.go    watches, likewise
//	events.go     events, likewise
//	listen.go     an endpoint's events as they come, for who has no public address
//	keys.go       API keys, likewise, and links to the account's pages
//	history.go    facts of an endpoint, a watch or an event, with the state after each
//	warnings.go   what warnings mean
//	explain.go    why a transaction has an event, or none
//	statement.go  what moved a wallet's balances
//	service.go    health, readiness, which ledgers were read, and what the service is
package client
