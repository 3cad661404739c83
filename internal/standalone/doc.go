// Package standalone is the whole service on one machine: a node on an embedded broker, an
// embedded ClickHouse and, unless another network is followed, a development network of
// its own, with a demo.
//
// It hides what each part needs of the others, the order in which they start, what
// becomes of a part that is missing or late, and what a person at the terminal is told.
//
// Invariants:
//
//   - run.json appears when everything is ready, or was waited for long enough, names what
//     is really listened on, and goes when the service stops.
//   - "ready" is said when /readyz answers 200, but for a history that is missing.
//   - A port that was not asked for and is taken is stepped over; one that was asked for
//     is not.
//   - Without ClickHouse the service runs all the same, says once what is missing, and
//     starts the history when its engine has come.
//   - The demo is a client like any other, and its receiver is the last to stop.
//
// File map:
//
//	flags.go       the flags of `lumenhook run`
//	standalone.go  the service: its steps, its node
//	parts.go       broker, development network, ClickHouse
//	history.go     a history that comes later; run.json kept up to date
//	demo.go        the demo
//	narrator.go    what a person is told
//	listen.go      addresses to listen on
//	topics.go      the broker of a data folder, for who copies its topics
package standalone
