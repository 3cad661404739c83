// Package nodeflags are the flags of the roles, which `lumenhook run` and `lumenhook serve`
// share, and how they configure a node.
//
// It hides how each is parsed and checked, and which parts of a node.Config it sets. A
// fault names its flag; secrets are never repeated.
//
// File map:
//
//	flags.go    all of them; the node.Config that they make
//	sockets.go  the API's sockets
//	egress.go   how receivers are reached
//	mail.go     how account holders are emailed
//	history.go  how the history is written
//	retention.go  how long topics keep what nobody needs
//	tracing.go  where traces go
package nodeflags
