// Package server is one process of `lumenhook serve`: a node of some roles on a Kafka
// cluster, a ClickHouse and a network that are others'.
//
// It hides what each role needs of the flags, and that a cluster which would lose what it
// acknowledged is refused before a role is started. Operators are answered from the
// beginning.
//
// File map:
//
//	flags.go       the flags of `lumenhook serve`
//	server.go      the process
//	supervised.go  a small process over it, which outlives it
package server
