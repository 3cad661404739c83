// Package topology is what the product asks of a Kafka cluster: its topics and
// their settings, and who may do what in it.
//
// It hides how the wanted is written down, held against a cluster and brought
// about. Everything that makes topics or looks at them goes by one list.
//
// Invariants:
//
//   - Nothing here deletes a topic, takes a replica away, changes a partition count
//     or shortens what is kept.
//   - Whoever may only describe topics, because they are there, is asked for no
//     right to create them.
//   - What is not allowed or not answered is an error, never taken for well.
//
// File map:
//
//	topics.go    the topics as they must be
//	plan.go      what differs between a cluster and them
//	create.go    making what is missing, altering what is safe to alter
//	check.go     what would lose records, and may not be run on
//	internal.go  the same of Kafka's own topics
//	access.go    the rights of each role
package topology
