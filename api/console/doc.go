// Package console serves server-rendered pages below /console, and the same pages below /portal to
// users with a link. It hides HTML, sessions and forms. It is a client of the API (package client):
// it sends its requests through the API's own handler with the session's key, so the console can do
// nothing that the API would reject. docs/decisions/console.md explains why.
//
// Invariants:
//
//   - All reads and changes go through the API. Keys are also looked up directly, but only to
//     validate sessions and to hide buttons.
//   - Nodes don't store sessions: the browser keeps them, encrypted. If a key is revoked, its
//     sessions end with the next request.
//   - A form without its session's token changes nothing. A form that is submitted twice takes
//     effect once.
//   - Pages only use this package's scripts and styles, and load nothing from other origins. Text
//     from third parties is always escaped.
//
// File map:
//
//	console.go    configuration, routes, headers, assets
//	session.go    encrypted sessions, cookies, form tokens
//	signin.go     signing in with a key or a link, and signing out
//	portal.go     how the portal differs from the console
//	backend.go    in-process requests to the API
//	page.go       the frame of a page, and error pages
//	words.go      times, states and rules in words
//	plot.go       bar charts by minute
//	overview.go   the overview page
//	health.go     the health of endpoints, in words and sparklines
//	endpoints.go  endpoints and actions on them
//	events.go     events, actions on them, and receipts as files
//	signature.go  how a receiver verifies a signature, step by step
//	watches.go    watches, the rule tester, backfills
//	statement.go  statements of a wallet
//	history.go    the state of an object after any of its facts
//	filters.go    filters of lists, mapped to the client's structs
//	form.go       form input and its errors
//	endpoint_form.go  creating, changing and deleting endpoints; their secrets
//	watch_form.go     creating, changing and deleting watches
//	live.go       telling an open page that it is out of date
package console
