// Package node assembles the roles of the service. It is the only package that knows how engine,
// follower, projector, mailer and API are built from their parts, and what they share in a process.
// `lumenhook run` is a node with embedded infrastructure, and `lumenhook serve` is a node that
// connects to external infrastructure.
//
// An event has a single trace, from its ledger to its last attempt, which may happen days later in
// another process. No trace state is stored: the ids of the trace and its first span are derived
// from the event's id ([EventTrace]). So the same trace continues when a ledger is read again, a
// state is rebuilt or a partition moves, and you can find the trace by the event's id. The trace id
// also decides whether the trace is sampled, so all processes decide alike.
//
// Invariants:
//
//   - A process has one instance of each shared part, regardless of its roles: one directory, one
//     client of the engine, one guarded client for receivers.
//   - A node can have any set of roles. No role needs another one in its process.
//   - A role that fails is restarted with growing waits. It is not ready until it has worked again
//     for a while, and stops no other role. Only Stack.Failed and a panic end the process
//     (docs/decisions/failing-parts.md).
//   - Parts stop in the reverse order of their start, so a part's dependencies run until the part
//     has ended. Stop returns when everything that was started has ended. It may be called again,
//     and also while parts are starting; these then stop immediately.
//   - If there is too little disk space, no role accepts new work.
//   - At most HTTPConfig.MaxConns connections to the API are open, and MaxConnsPerClient from one
//     address. Package ingress decides which of them to close if there are more.
//   - The API picks up a changed certificate within a second. It never uses a broken or
//     half-written pair, and keeps the previous one instead.
//   - After too many rejected keys from one address, every further rejection waits. The number of
//     waiting requests is bounded, and the rest get 429. An accepted request is never delayed.
//   - If net/http rejects a request before a handler sees it, the response is a problem in the
//     API's format (RFC 9457). The exception is non-HTTP data inside TLS: there, net/http requires
//     a crypto/tls connection and responds itself.
//   - Metric labels have few values, and are never an identifier, an address or a URL.
//
// File map:
//
//	node.go       the roles, a node's configuration, starting roles
//	shared.go     directory, client of the engine, guarded client for receivers
//	api.go        the API and its listener
//	engine.go, follower.go, projector.go, mailer.go  the other roles
//	catchup.go    progress reports while the follower is behind
//	history.go    the history and its lag
//	ledgers.go    the follower's cursor, for the API
//	adapters.go   adapters between the interfaces of the parts
//	disk.go       monitoring free disk space
//	tune.go       settings of the Go runtime for serving processes
//	metrics.go, collectors.go, kafkametrics.go  metrics
//	tracing.go    an event's trace, its spans and their export
//	stack.go, loop.go  starting and stopping parts; restarting failed ones
//	httpserver.go serving the API: connections, not requests
//	keypair.go    the certificate and its reload
//	authlimiter.go  delaying the rejection of keys
//	refusals.go   responses to requests that no handler sees
//	ready.go      waiting until every part is ready
//	operations.go the operators' listener: /metrics, /healthz, /readyz
package node
