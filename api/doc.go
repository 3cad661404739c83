// Package api is the REST API: it authenticates a request, checks all of its body, turns it
// into a command and answers with the result, or reads a view. It hides HTTP from every
// other part, and it knows no topic, store or database: it declares the few interfaces that
// it needs (ports.go), and internal/node connects them to the other parts.
//
// Invariants:
//
//   - What does not need the body is decided before a byte of it is read: 401,
//     403, 404, 405, 413, 415, and faults of headers.
//   - All faults of a body are answered at once, each with a JSON pointer. 400 means
//     that the body is no JSON, 422 that a field is wrong.
//   - A handler first decodes its request and collects all its faults, and then acts.
//     Faults that depend on other state (a URL, an endpoint) are added to those.
//   - An error that a handler returns is a *problem.Problem, or an internal one.
//   - A secret that a client sends by mistake appears in no answer and no log line: no
//     answer echoes a value, and whatever looks like a secret is redacted where answers
//     and log lines are written (middleware.go).
//   - A write is acknowledged after the engine committed it (G1), and the next
//     request through the same node sees it.
//   - The number of requests, the size, depth and count of what a body holds,
//     and the time of each request are bounded.
//
// Requests are decoded by package decode, and refused in the form of package problem.
//
// File map:
//
//	api.go             configuration, routes, the server's limits
//	ports.go           what the API needs of other parts
//	middleware.go      around every request: its id, headers, refusals, log line without secrets
//	request.go         one request: its headers, its body, its route's work
//	reply.go           answers that are no problem
//	auth.go            bearer keys and permissions
//	confine.go         what a portal link of one endpoint reaches
//	limits.go          how often an account may ask
//	lookup.go          finding what a path names
//	lists.go           parameters of lists, cursors, pages
//	fields.go          reading texts, words and addresses
//	commands.go        command ids, submitting; what this node warned of, for repeats
//	readyourwrites.go  a request sees what the one before it wrote
//	endpoints.go       endpoints: their life, and tests
//	endpoint_wire.go   their fields, as a client sends and gets them; sealing their headers
//	signatures.go      signatures that an endpoint may ask for, and the published keys
//	watches.go         watches
//	watch_wire.go      their fields, as a client sends and gets them
//	watch_check.go     what a watch would make of a payment
//	rules.go           the rules of a watch, likewise
//	backfill.go        backfills of a watch
//	events.go          events: reading, listing
//	pull.go            events of an endpoint by their numbers
//	receipts.go        receipts of attempts
//	turns.go           an account runs a few reads at once, and its others wait
//	quotas.go          how much an account may have
//	waiters.go         how many requests may wait for one, and statements for a ledger
//	filters.go         filters of lists of events by what was paid, also in a body
//	replay.go          failed deliveries of an endpoint, queued again
//	resend.go          events: sending them again, where they go now
//	resend_many.go     the same of all that a filter selects
//	history.go         what an endpoint, a watch or a delivery was after each fact
//	explain.go         why a transaction has an event, or none
//	statement.go       statements of a wallet, also as CSV
//	statement_newest.go  a ledger that is recorded and does not count yet is waited for
//	rates.go           attempts counted by the minute
//	health.go          how endpoints do, and their list with the worst first
//	coverage.go        which ledgers were read, and verified
//	keys.go            API keys, and when they were used
//	key_wire.go        their fields, as a client sends and gets them
//	portallinks.go     links to an account's pages for a browser without a key
//	operations.go      /healthz, /readyz, /v1/openapi.yaml, /docs
package api
