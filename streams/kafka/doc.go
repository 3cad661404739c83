// Package kafka is the client side of the logs: records, readers, transactions, group membership,
// and what administrators ask of a cluster. It knows logs and time, and keeps no state.
//
// It hides the Kafka client: the packages above see [Record], [Reader], [Producer] and [Cluster].
//
// # Fencing
//
// Each task has a transactional id of its own, <group>-<partition>. A new owner takes it over
// before it reads anything. That aborts the former owner's open transaction, and the broker refuses
// whatever the former owner writes afterwards, even if it still believes that it is a member of the
// group. Nothing depends on input offsets being part of the turn (docs/decisions/fencing.md).
//
// File map:
//
//	record.go      records and headers
//	cluster.go     how a cluster is reached
//	clientlog.go   which messages of the Kafka client are logged
//	listening.go   whether a broker answers
//	topics.go      topics that must exist
//	deleter.go     deleting records, keeping them for a while, and how far readers are
//	ends.go        first offsets and ends of topics
//	leaders.go     leaders of partitions, by all brokers but one
//	acls.go        ACLs
//	admin.go       settings of topics, features and clock of a cluster; retries of requests
//	sasl.go        how clients authenticate
//	tls.go         how connections are encrypted
//	reader.go      reading partitions, with positions that count control records
//	marks.go       detects reads of aborted records, by the markers of transactions
//	producer.go    appending, acknowledged by all replicas, or in transactions by one owner at a time
//	transactor.go  one task's transactions
//	placer.go      a copy of a topic, at the same offsets
//	membership.go  group membership, which partitions it assigns, how long it counts, and members of
//	               dead processes
//	balance.go     who owns and who stands by for which partition: a pure function
//	balancer.go    its messages in the group's protocol, and when a member asks for another balance
//	positions.go   committed positions of a group, for parts without other state
package kafka
