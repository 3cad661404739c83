// Package server is one process of `lumenhook serve`: a node with some roles that uses an
// external Kafka cluster, ClickHouse and network.
//
// It hides which flags each role needs, and that a cluster which could lose acknowledged
// records is refused before a role is started. The operators' address answers from the
// beginning.
//
// Invariants of a supervised child:
//
//   - When [RunChild] returns, the child's process is gone: none of its threads runs, and its
//     connections are closed.
//   - On Linux the kernel kills the child when its parent dies, however it dies. On other systems a
//     child outlives a parent that is killed.
//   - The child is in a process group of its own: a terminal's Ctrl-C reaches its parent alone, who
//     passes it on once. A second one ends the parent at once, and so the child.
//
// File map:
//
//	flags.go       the flags of `lumenhook serve`
//	server.go      the process
//	checkup.go     what `lumenhook doctor` checks of it
//	supervised.go  a small supervising process, and the child that it runs
package server
