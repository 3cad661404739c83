// Package kafkatest runs a real Apache Kafka for tests: one or three brokers on loopback addresses,
// each in its own JVM. Tests can kill, pause and restart them.
//
// It hides how Kafka is downloaded (with Maven, into the user's cache folder, verified by hashes),
// formatted and configured, and how its processes end together with the test's process.
//
// Invariants:
//
//   - Only jars whose hashes are pinned in deploy/kafka run.
//   - A broker never outlives the process that started it.
//   - Each node is both broker and controller (KRaft), so two of three are a quorum.
//
// File map:
//
//	install.go   downloads the jars
//	config.go    a node's properties
//	security.go  certificates and users
//	clients.go   client certificates
//	node.go      one process: start, kill, pause
//	cluster.go   all processes
//	control.go   a cluster of another process; with/ runs a command with it, or only installs Kafka
package kafkatest
