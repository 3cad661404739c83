// Package api is the REST API: it authenticates a request, checks all of its
// body, turns it into a command and answers with what became of it, or reads a
// view. It hides HTTP from every other part, and it knows of no topic, store or
// database: it declares the few interfaces it needs (ports.go), and internal/node
// fits them to the other parts.
//
// Invariants:
//
//   - What does not need the body is decided before a byte of it is read: 401,
//     403, 404, 405, 413, 415, and faults of headers.
//   - A body's faults are told all at once, each with a JSON pointer. 400 says
//     that the body is no JSON, 422 that a field is wrong.
//   - A code stands in one table (problem.go), which gives it its status.
//   - A secret that a client sends by mistake leaves through no answer and no
//     log line: no answer echoes a value, and whatever looks like a secret is
//     struck out where answers and log lines are written (redact.go).
//   - A write is acknowledged after the engine committed it (G1), and the next
//     request through the same node sees it.
//   - The number of requests, the size, depth and count of what a body holds,
//     and the time of each request are bounded.
//
// File map:
//
//	api.go        configuration, routes, the server's limits
//	ports.go      what the API needs of other parts
//	exchange.go   one request from its first header to its log line
//	auth.go       bearer keys and permissions
//	problem.go    problem+json: codes, titles, statuses, faults
//	redact.go     striking out what looks like a secret
//	body.go       strict JSON, and reading fields while collecting faults
//	query.go      parameters of lists, cursors, pages
//	conditions.go ETag and If-Match
//	limits.go     how often a key may ask
//	memory.go     what a node remembers: its answers, keys' uses, writes to be read
//	address.go    addresses of the ledger network
//	subjects.go   finding what a path names
//	commands.go   idempotency keys, command ids, submitting
//	endpoints.go  endpoints: their life, tests and replays
//	headers.go    an endpoint's own headers
//	watches.go    watches
//	backfill.go   backfills of a watch
//	events.go     events: reading, listing
//	resend.go     events: sending them again, where they go now
//	keys.go       API keys
//	operations.go /healthz, /readyz, /v1/openapi.yaml
//	docs.go       /docs
package api
