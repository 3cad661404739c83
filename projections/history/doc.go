// Package history reads the tables that package writer fills: events with their deliveries and
// attempts, lists, statements, rates, health and facts for the API, and users' queries. It hides
// the queries, how duplicate rows collapse, and whether the tables are complete. The results have
// types of package readmodel, which doesn't depend on ClickHouse.
//
// A delivery's row contains its event's account and time, its endpoint, and the time of each
// attempt. These locate the rows of the event and the attempts, which are sorted for lists and
// users' queries. An event that was handed over to another endpoint has several deliveries and is
// shown with the current one.
//
// A read uses one server, and starts over on another one if that server fails.
//
// Invariants (P1 to P5 are those of package writer):
//
//   - A read either sees complete tables or returns readmodel.ErrBehind. No result contains only
//     a part of rows that an earlier result may have contained completely.
//   - If an event is not found, the tables contain everything that the journal contained when the
//     read started.
//
// File map:
//
//	history.go     a read: choice of server, waiting for the tables, retries, errors
//	full.go        whether the tables are complete
//	read.go        an event with its deliveries and attempts
//	list.go        lists and selections of events
//	pull.go        an endpoint's events by number
//	steps.go       the facts of an endpoint or a watch, with the state after each
//	eventsteps.go  the same for an event's deliveries
//	attemptlog.go  hashes of the attempt logs, for receipts
//	payments.go    the payments of a transaction
//	statement.go   statements of a wallet
//	rates.go       attempts by minute
//	health.go      endpoint health: attempts by time span, last success, oldest pending event
//	console.go     users' queries
package history
