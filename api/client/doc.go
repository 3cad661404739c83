// Package client calls the Lumenhook API. It takes care of HTTP: headers, problem+json errors and
// retries.
//
// Each operation in schemas/openapi.yaml has a method named after its operationId, and each object
// has a struct. A test compares both with the document. The API server encodes its responses from
// the same structs. The tags of filters and request bodies also describe the fields to the command
// line, shell completion, MCP clients and the console (docs/decisions/command-line.md).
//
// Invariants:
//
//   - Every write carries an Idempotency-Key. If no response arrives, or a response with
//     Retry-After, the client retries with the same key, so a write takes effect once.
//   - An error response of the API is a *Problem.
//   - The duration of a request, the size of a response and the number of retries are bounded.
//
// File map:
//
//	client.go     one call, with retries and error responses
//	lists.go      pages of lists
//	endpoints.go  endpoints and their operations
//	watches.go    watches and their operations
//	events.go     events and their operations
//	listen.go     receiving an endpoint's events without a public address
//	keys.go       API keys and portal links
//	history.go    facts of an endpoint, a watch or an event, with the state after each fact
//	warnings.go   explanations of warnings
//	reasons.go    explanations of reasons
//	explain.go    why a transaction has events, or why not
//	statement.go  changes of a wallet's balances
//	service.go    health, readiness, ledger coverage and the service's documents
package client
