// Package server implements a process of `lumenhook serve`: a node with some roles that uses an
// external Kafka cluster, ClickHouse and Stellar network.
//
// It knows which flags each role needs. Before it starts a role, it refuses clusters that could
// lose acknowledged records. The operators' address is available from the beginning.
//
// Invariants of a supervised child:
//
//   - When [RunChild] returns, the child process has exited: none of its threads runs, and its
//     connections are closed.
//   - On Linux, the kernel kills the child when its parent dies for any reason. On other systems, a
//     child outlives a parent that is killed.
//   - The child has its own process group. If the user presses Ctrl-C, only the parent gets the
//     signal, which it forwards once. A second signal ends the parent immediately, and therefore
//     the child.
//
// File map:
//
//	flags.go       flags of `lumenhook serve`
//	server.go      the process
//	checkup.go     what `lumenhook doctor` checks
//	supervised.go  a small supervising process and its child
package server
