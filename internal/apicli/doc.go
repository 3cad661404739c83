// Package apicli is what the commands that ask the API have of their own: the flags of
// endpoints, watches and events, and how the API's answers are shown to a person.
//
// It hides how flags become the bodies of requests, and which columns a table has.
//
// File map:
//
//	endpoint.go, watch.go, event.go, key.go  what the API answers with, and its flags
//	secretout.go  a new secret, kept off the terminal
//	backfill.go   a backfill, followed to its end
package apicli
