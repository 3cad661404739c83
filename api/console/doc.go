// Package console serves the pages below /console, rendered on the server, and the same pages
// below /portal for users with a link. It hides
// HTML, sessions and forms from every other part. It is a client of the API (package client),
// whose requests it runs through the API's own handler with the key of the session, so that
// whatever the API refuses the console cannot do; docs/decisions/console.md says why.
//
// Invariants:
//
//   - Nothing is read or changed but through the API. What a key may do is looked up besides,
//     to leave out buttons.
//   - A node keeps nothing of a session: the browser holds it, sealed. A key that is revoked
//     ends its sessions with the next request.
//   - A form that does not carry its session's token changes nothing, and one that is sent twice
//     changes something once.
//   - A page runs no script and has no style but this package's files, and loads nothing from
//     another address. What other people wrote is text in it.
//
// File map:
//
//	console.go    configuration, routes, headers, assets
//	session.go    sealed sessions, cookies, tokens of forms
//	signin.go     signing in, with a key or a link, and out
//	portal.go     what differs where a link opens the pages
//	backend.go    requests to the API within the process
//	page.go       the frame of a page, and what stands in a page's way
//	words.go      times, states and rules in words
//	plot.go       bars by minute
//	overview.go   the first page
//	health.go     how endpoints do, in words and small plots
//	endpoints.go  endpoints, and what is done with them
//	events.go     events, likewise; the receipt of an event's attempts, as a file
//	signature.go  how a receiver checks a signature, step by step
//	watches.go    watches, the rule tester, backfills
//	statement.go  statements of a wallet
//	history.go    what an endpoint or a watch was after any fact
//	filters.go    filters of lists, as the client's structs have them
//	form.go       what a person fills in, and what is wrong with it
//	endpoint_form.go  making, changing and deleting endpoints, and their secrets
//	watch_form.go     making, changing and deleting watches
//	live.go       what tells an open page that it has changed
package console
