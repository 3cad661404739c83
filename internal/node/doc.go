// Package node assembles the roles of the service: it is the one place that knows
// how engine, follower, projector, mailer and API are made of their parts, and what
// they share in a process. `lumenhook run` is a node with embedded parts below it,
// `lumenhook serve` a node with addresses.
//
// Invariants:
//
//   - A process has one of each part, however many roles use it: one directory,
//     one client of the engine, one guarded client of receivers.
//   - Any set of roles makes a node. No role needs another one in its process.
//   - A role that fails is restarted, is not ready meanwhile, and stops no other role. A
//     few failures end the process (docs/decisions/failing-parts.md).
//   - With too little room on the disk no new work is taken, by any role.
//   - Metrics have labels of few values: never an identifier, an address or a URL.
//
// File map:
//
//	node.go       what a node is made of; starting roles
//	roles.go      their names, and what each needs
//	shared.go     directory, client of the engine, guarded client
//	api.go        the API and its sockets
//	engine.go, follower.go, projector.go, mailer.go
//	catchup.go    progress reports while the follower is behind
//	history.go    the history, and how far it is behind
//	ledgers.go    how far ledgers were followed, for the API
//	adapters.go   adapters between the interfaces of the parts
//	disk.go       the guard over the disk
//	tune.go       Go's runtime for a process that serves
//	memory.go     how seldom garbage is collected
//	metrics.go, collectors.go, retained.go  the numbers
//	ready.go      waiting until every part is ready
//	operations.go the listener of operators: /metrics, /healthz, /readyz
package node
