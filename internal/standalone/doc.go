// Package standalone is the whole service on one machine: a node on an embedded broker, an embedded
// ClickHouse and, unless another network is followed, a development network, with a demo.
//
// It hides what each part needs from the others, the order in which they start, how missing or late
// parts are handled, and the output on the terminal.
//
// Invariants:
//
//   - run.json is written when everything is ready, or after a bounded wait, has the addresses that
//     are really listened on, and is removed when the service stops.
//   - "ready" is printed when /readyz answers 200, or would but for a missing history.
//   - A default port that is in use is replaced by a free one; a port that was set by a flag is
//     not.
//   - Without ClickHouse the service still runs, says once what is missing, and starts the history
//     when its engine has been fetched.
//   - The demo is a client like any other, and its receiver is the last to stop.
//
// File map:
//
//	flags.go       the flags of `lumenhook run`
//	standalone.go  the service: its steps, its node
//	addresses.go   where it listens, and that a folder keeps that
//	parts.go       broker, development network, ClickHouse, and their addresses
//	history.go     a history that starts later; updates of run.json
//	backup.go      backup and restore of a data folder
//	demo.go        the demo
//	output.go      the output, which never waits for its terminal
package standalone
