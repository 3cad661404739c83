// Package topology is what the product requires of a Kafka cluster: topics with their
// settings, and ACLs.
//
// It hides how the requirements are described, compared with a cluster and established.
// Everything that creates or checks topics uses one list.
//
// Invariants:
//
//   - Nothing here deletes a topic, removes a replica, changes a partition count or
//     shortens retention.
//   - If all topics exist, the right to describe them is enough.
//   - A denied or unanswered request is an error, never assumed to be fine.
//
// File map:
//
//	topics.go    the required topics
//	plan.go      how a cluster differs from them
//	create.go    creating what is missing, changing what is safe to change
//	closed.go    keeping the service off topics
//	check.go     what could lose records, and is refused
//	internal.go  the same of Kafka's own topics
//	access.go    the rights of each role
//	rights.go    whether a user has them
//	tiered.go    topics of which brokers keep the older files elsewhere
//	retained.go  topics of which is deleted what nobody needs
package topology
