// Package kafka is the client side of the logs: records, readers, transactions, group membership,
// and cluster administration. It keeps no state, and knows nothing of what the records mean.
// It hides the Kafka client: the packages above see [Record], [Reader], [Producer] and [Cluster].
//
// # Fencing
//
// Each task has its own transactional id, <group>-<partition>. A new owner takes it over before
// reading anything. This aborts the open transaction of the previous owner, and the broker rejects
// all its later writes, even if it still believes that it is a group member. Fencing does not
// require the input offsets to be part of the transaction (docs/decisions/fencing.md).
//
// File map:
//
//	record.go      records and headers
//	cluster.go     connection settings of a cluster
//	clientlog.go   which messages of the Kafka client are logged
//	listening.go   whether a broker answers
//	topics.go      creating and checking topics
//	deleter.go     deleting records, holding them for a while, and the positions of readers
//	ends.go        first offsets and ends of topics
//	leaders.go     partition leaders according to all brokers but one
//	acls.go        ACLs
//	admin.go       topic settings, cluster features and clock; retries of requests
//	sasl.go        client authentication
//	tls.go         encryption of connections
//	reader.go      reading partitions, with positions that include control records
//	marks.go       detects reads of aborted records by the transaction markers
//	producer.go    idempotent appends, and appends in fenced transactions
//	transactor.go  one task's transactions
//	placer.go      a copy of a topic with the same offsets
//	membership.go  group membership, assigned partitions and how long they are valid, and removing
//	               members of dead processes
//	balance.go     which members own and stand by for each partition: a pure function
//	balancer.go    Balance in the group protocol, and when a member asks for a rebalance
//	positions.go   committed positions of a group, for parts without other state
package kafka
