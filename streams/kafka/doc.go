// Package kafka is the client side of the logs: records, readers, transactions, group membership,
// and cluster administration. It knows logs and time, and keeps no state.
//
// It hides the Kafka client: the packages above see [Record], [Reader], [Producer] and [Cluster].
//
// # Fencing
//
// Each task has its own transactional id, <group>-<partition>. A new owner takes it over before it
// reads anything. That aborts the former owner's open transaction, and the broker refuses all later
// writes of the former owner, even if it still believes that it is a member of the group. Fencing
// does not depend on input offsets being part of the turn (docs/decisions/fencing.md).
//
// File map:
//
//	record.go      records and headers
//	cluster.go     connection settings of a cluster
//	clientlog.go   which messages of the Kafka client are logged
//	listening.go   whether a broker answers
//	topics.go      topics that must exist
//	deleter.go     deleting records, holding them for a while, and the positions of readers
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
//	membership.go  group membership, assigned partitions and how long they are valid, and removing
//	               members of dead processes
//	balance.go     which members own and stand by for each partition: a pure function
//	balancer.go    its messages in the group protocol, and when a member asks for a rebalance
//	positions.go   committed positions of a group, for parts without other state
package kafka
