// Package server is one process of `lumenhook serve`: a node with some roles that uses an
// external Kafka cluster, ClickHouse and network.
//
// It hides which flags each role needs, and that a cluster which could lose acknowledged
// records is refused before a role is started. The operators' address answers from the
// beginning.
//
// File map:
//
//	flags.go       the flags of `lumenhook serve`
//	server.go      the process
//	checkup.go     what `lumenhook doctor` checks of it
//	supervised.go  a small supervising process, which outlives it
package server
