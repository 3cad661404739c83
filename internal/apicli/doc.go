// Package apicli is the common part of the commands that use the API: how each kind of object is
// read, and how the API's answers are printed for people.
//
// It hides how flags become the bodies of requests, and which columns a table has.
//
// File map:
//
//	resource.go   the kinds of objects that have lists; accounts, keys, portal links
//	endpoint.go   endpoints, and how a new secret stays off the terminal
//	watch.go      watches, their flags, and how a backfill is followed to its end
//	event.go      events, replays, resends, and facts
//	pull.go       an endpoint's events as lines, appended to a file
//	tail.go       events and attempts as they happen
//	receipt.go    receipts of attempts, and what they prove
//	statement.go  what moved a wallet's balances, and which ledgers were read
package apicli
