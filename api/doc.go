// Package api is the REST API. It authenticates a request, checks its complete body, turns it into
// a command, and responds with the result; or it reads a view. It hides HTTP from all other parts.
// It knows no topic, store or database: it declares the few interfaces that it needs (ports.go),
// and internal/node connects them to the other parts.
//
// Invariants:
//
//   - Everything that does not depend on the body is decided before a byte of it is read: 401, 403,
//     404, 405, 413, 415, and faults of headers.
//   - All faults of a body are reported together, each with a JSON pointer. 400 means that the body
//     is not JSON, and 422 that a field is invalid.
//   - A handler first decodes its request and collects all faults, and then acts. Faults that
//     depend on other state (a URL, an endpoint) are added to those.
//   - An error of a handler is a *problem.Problem or an internal error.
//   - A secret that a client sends by mistake appears in no response and no log line. Responses
//     never echo a value, and everything that looks like a secret is redacted when responses and
//     log lines are written (middleware.go).
//   - A write is acknowledged after the engine has committed it (G1), and the next request through
//     the same node sees it.
//   - The number of requests, the duration of each, and the size, depth and number of values of a
//     body are bounded.
//
// Package decode decodes requests, and package problem defines the form of errors.
//
// File map:
//
//	api.go             configuration, routes, the server's limits
//	ports.go           interfaces that the API needs from other parts
//	middleware.go      around every request: its id, headers, errors, a log line without secrets
//	request.go         one request: its headers, its body, its route's handler
//	reply.go           responses that are not problems
//	auth.go            bearer keys and permissions
//	confine.go         limiting portal links to one endpoint
//	limits.go          rate limits of accounts
//	lookup.go          finding the object in a path
//	lists.go           parameters of lists, cursors, pages
//	fields.go          reading texts, words and addresses
//	commands.go        command ids, submitting; this node's warnings, for retries
//	readyourwrites.go  a request sees earlier writes through the same node
//	endpoints.go       endpoints and tests
//	endpoint_wire.go   an endpoint's fields in requests and responses; sealing its headers
//	signatures.go      additional signatures of endpoints, and the published keys
//	watches.go         watches
//	watch_wire.go      a watch's fields in requests and responses
//	watch_check.go     checking a hypothetical payment against a watch
//	rules.go           a watch's rules in requests and responses
//	backfill.go        backfills of a watch
//	events.go          events: reading, listing
//	pull.go            pulling an endpoint's events by number
//	receipts.go        receipts of attempts
//	turns.go           an account runs a few reads at once, and its others wait
//	quotas.go          how much an account may have
//	filters.go         filters of lists of events by what was paid, also in a body
//	replay.go          failed deliveries of an endpoint, queued again
//	resend.go          events: sending them again, where they go now
//	resend_many.go     the same of all that a filter selects
//	history.go         what an endpoint, a watch or a delivery was after each fact
//	explain.go         why a transaction has an event, or none
//	statement.go       statements of a wallet, also as CSV
//	statement_newest.go  waiting for a recorded ledger to count
//	rates.go           attempts per minute
//	health.go          health of endpoints, and their list sorted by health
//	coverage.go        which ledgers were read and verified
//	keys.go            API keys and their last uses
//	key_wire.go        a key's fields in requests and responses
//	portallinks.go     links to an account's pages for a browser without a key
//	operations.go      /healthz, /readyz, /v1/openapi.yaml, /docs
package api
