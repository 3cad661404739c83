// Package retention deletes the records of topics that nobody needs any more.
//
// It hides who needs what. A record is needed while a group that reads its topic has not
// committed a position beyond it, and while the state of its partition may be restored from
// it. What is not needed stays for the time, or up to the number or size, that the operator asks
// for; then it is deleted by Kafka's DeleteRecords. A topic's own settings keep everything: a
// broker that deletes by age does not know who has read what.
//
// Each process does this for the partitions whose tasks it runs. Two that believe to own a
// partition do no harm: bounds only grow, and the lower one deletes less.
//
// Invariants:
//
//   - Nothing is deleted of a partition of which a reader has committed no position, which
//     is so before its first start, and after it was away for longer than the cluster keeps
//     positions of groups without members (offsets.retention.minutes, 7 days by default).
//   - Any group whose name begins with the deployment's prefix, and that has committed a
//     position in a topic, holds what is above it, whoever it is.
//   - While a broker does not answer, nothing is deleted: it may know of a group.
//
// File map:
//
//	retention.go  what is deleted, and when
//	growth.go     how large records are
//	needed.go     who needs which records
package retention
