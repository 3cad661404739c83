// Package kafkatest runs a real Apache Kafka for tests: one or three brokers on loopback addresses,
// a JVM each, that can be killed, paused and started again.
//
// It hides how Kafka is fetched (Maven, into the user's cache folder, every file checked by its
// hash), formatted and configured, and how its processes end with the test's.
//
// Invariants:
//
//   - Only jars whose hashes are pinned in deploy/kafka run.
//   - A broker never outlives the process that started it.
//   - Each node is broker and controller in one (KRaft), so that killing one of three leaves a
//     quorum.
//
// File map:
//
//	install.go   the jars; install/ fetches them beforehand
//	config.go    a node's properties
//	security.go  certificates, users
//	clients.go   certificates of clients
//	node.go      one process: start, kill, pause
//	cluster.go   all of them
//	control.go   the cluster of another process; with/ runs a command next to one
package kafkatest
