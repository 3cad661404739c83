// Package apicli is the common part of the commands that use the API: the flags of
// endpoints, watches and events, and how the API's answers are printed for people.
//
// It hides how flags become the bodies of requests, and which columns a table has.
//
// File map:
//
//	warning.go    the API's warnings, in words
//	account.go                               accounts, as whoever runs the service sees them
//	endpoint.go, watch.go, event.go, key.go  the API's answers, and their flags
//	portal.go                                a link to the account's pages
//	replay.go                                the flags of a replay, and its answer
//	resend.go                                the flags of a resend of many events, and its answer
//	secretout.go  a new secret, kept off the terminal
//	pull.go       an endpoint's events as lines, appended to a file
//	tail.go       events and attempts as they happen
//	tailfilter.go whether a tail's filter can take any
//	coverage.go   which ledgers were read
//	receipt.go    receipts of attempts, and what they prove
//	history.go    what an endpoint, a watch or a delivery was
//	twin.go       another watch of the same wallet and endpoint
//	wallet.go     the address of a wallet
//	statement.go  what moved a wallet's balances
//	backfill.go   a backfill, followed to its end
package apicli
