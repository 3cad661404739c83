// Package apicli contains what the commands that use the API share: reading each kind of object and
// printing the API's responses.
//
// It hides how flags become request bodies, and which columns a table has.
//
// File map:
//
//	resource.go   kinds of objects that have lists; accounts, keys, portal links
//	endpoint.go   endpoints, and keeping a new secret off the terminal
//	watch.go      watches and their flags, and waiting for a backfill
//	event.go      events, replays, resends and facts
//	pull.go       writing an endpoint's events as lines, also to a file
//	tail.go       events and attempts as they happen
//	receipt.go    receipts of attempts, and what they prove
//	statement.go  changes of a wallet's balances, and ledger coverage
package apicli
