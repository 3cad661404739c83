// Package node assembles the roles of the service: it is the one place that knows how engine,
// follower, projector, mailer and API are made of their parts, and what they share in a process.
// `lumenhook run` is a node with embedded parts below it, `lumenhook serve` a node with addresses.
//
// An event has one trace, from its ledger to its last attempt, which may be days later and in
// another process. Nothing is stored for that: the trace's id, and that of its first span, are
// derived from the event's id ([EventTrace]). So a ledger that is read again, a state that is
// rebuilt and a partition that moves continue the same trace, and an event's trace can be found by
// the event's id. Its id also decides whether it is sampled, so all processes decide alike.
//
// Invariants:
//
//   - A process has one of each part, however many roles use it: one directory, one client of the
//     engine, one guarded client of receivers.
//   - Any set of roles makes a node. No role needs another one in its process.
//   - A role that fails is restarted, with growing waits, is not ready until it has worked again
//     for a while, and stops no other role. Only Stack.Failed and a panic end the process
//     (docs/decisions/failing-parts.md).
//   - Parts are stopped in the reverse order of their start: the dependencies of a part run until
//     it has ended. Stop returns when everything that was started has ended. It may be called
//     again, and while parts are being started: these are then stopped at once.
//   - With too little room on the disk no role takes new work.
//   - At most HTTPConfig.MaxConns connections to the API are open, and MaxConnsPerClient from one
//     address. Package ingress says which of them is closed when there are more.
//   - The API uses a certificate that changed on disk within a second, and never a broken or
//     half-written pair: the previous one stays.
//   - An address whose keys were refused too often waits for every further refusal. The number of
//     waiting requests is bounded, and the rest are answered 429. An accepted request is never
//     delayed.
//   - A request that net/http refuses before any handler sees it is answered in the API's form: a
//     problem (RFC 9457). The exception is non-HTTP data inside TLS, where net/http requires a
//     connection of crypto/tls and answers itself.
//   - Metrics have labels of few values: never an identifier, an address or a URL.
//
// File map:
//
//	node.go       the roles, the configuration of a node; starting roles
//	shared.go     directory, client of the engine, guarded client
//	api.go        the API and its sockets
//	engine.go, follower.go, projector.go, mailer.go
//	catchup.go    progress reports while the follower is behind
//	history.go    the history, and how far it is behind
//	ledgers.go    how far ledgers were followed, for the API
//	adapters.go   adapters between the interfaces of the parts
//	disk.go       the guard over the disk
//	tune.go       Go's runtime for a process that serves; how often garbage is collected
//	metrics.go, collectors.go, kafkametrics.go  the numbers
//	tracing.go    an event's trace, spans and where they are sent
//	stack.go, loop.go  starting and stopping parts; restarting failed ones
//	httpserver.go serving the API: connections rather than requests
//	keypair.go    the certificate and its reload
//	authlimiter.go  delaying refusals of keys
//	refusals.go   answers to requests that no handler sees
//	ready.go      waiting until every part is ready
//	operations.go the listener of operators: /metrics, /healthz, /readyz
package node
