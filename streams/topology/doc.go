// Package topology lists what the product requires of a Kafka cluster: topics with their settings,
// and ACLs. It also deletes records that are no longer needed.
//
// It hides how the requirements are described, compared with a cluster and established, and which
// readers need which records. Everything that creates or checks topics uses one list.
//
// Retention: a record is needed while a group that reads its topic has not committed a position
// beyond it, and while the state of its partition may be restored from it. Other records stay for
// the time, or up to the number or size, that the operator configures, and are then deleted with
// Kafka's DeleteRecords. The topics' own settings keep everything, because a broker that deletes by
// age does not know the readers' positions. Each process does this for the partitions whose tasks
// it runs. If two processes believe that they own a partition, this is harmless, because bounds
// only grow and the lower one deletes less.
//
// Invariants:
//
//   - Nothing here deletes a topic, removes a replica, changes a partition count or shortens a
//     topic's retention.
//   - Retention deletes nothing from a partition in which a reader has not committed a position:
//     before its first start, or after it was away for longer than the cluster keeps the positions
//     of groups without members (offsets.retention.minutes, 7 days by default).
//   - Any group whose name begins with the deployment's prefix, and that has committed a position
//     in a topic, keeps the records after it.
//   - While a broker does not answer, nothing is deleted, because it may know of a group.
//   - If all topics exist, the right to describe them is enough.
//   - A denied or unanswered request is an error, and never taken for a success.
//
// File map:
//
//	topics.go    the required topics
//	plan.go      how a cluster differs from them
//	create.go    creating missing topics, changing settings that are safe to change
//	closed.go    keeping the service off topics
//	check.go     faults that could lose records, also in Kafka's own topics
//	access.go    the rights of each role, and whether a user has them
//	tiered.go    topics whose older segments are in tiered storage
//	retention.go deleting records
//	needed.go    which readers need which records
//	growth.go    how large records are
package topology
