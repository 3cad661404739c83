// Package history reads the tables that package writer fills: events with their deliveries and
// attempts, lists, statements, rates, health and facts for the API, and queries of users. It hides
// the queries, how a reader sees each row once, and whether the tables are complete. Its answers
// are of package readmodel, which imports no ClickHouse.
//
// A delivery's row holds its event's account and time, its endpoint, and when each attempt was
// sent. These locate the rows of the event and of the attempts, which are sorted for lists and for
// users' queries. An event that was handed over to another endpoint has several deliveries, and is
// shown with the current one.
//
// A read uses one server, and starts again on another one if that one fails.
//
// Invariants (P1 to P5 are those of package writer):
//
//   - A read sees either complete tables or reports readmodel.ErrBehind. No answer shows a part of
//     rows that an earlier answer could have shown in full.
//   - If an event is not found, the tables have everything that the journal had when the read
//     began.
//
// File map:
//
//	history.go     one read: which server, waiting for the tables, retries, errors
//	full.go        whether the tables are complete
//	read.go        an event with its deliveries and attempts
//	list.go        lists and choices of events
//	pull.go        events of an endpoint by their numbers
//	steps.go       facts of an endpoint or a watch, with the state after each
//	eventsteps.go  the same for an event's deliveries
//	attemptlog.go  hashes of the logs of attempts, for receipts
//	payments.go    the payments of a transaction
//	statement.go   statements of a wallet
//	rates.go       attempts by the minute
//	health.go      endpoint health: attempts by spans, last success, oldest pending
//	console.go     queries of users
package history
