// Package transfer takes a deployment to other topics: to another partition count
// (repartition), into a folder (backup), and from a folder into an empty cluster (restore).
//
// It hides how the states of all partitions are read at one position while the service
// runs, in which form they lie between two clusters, and how they are divided anew.
//
// Invariants:
//
//   - A copy is consistent. The follower's cursor is read first, then the ends of the inputs,
//     then the states are folded to the ends of the journals. So what a record of the copy
//     follows from is in the copy too, and what follows from the copy is in it or is made again
//     (docs/decisions/restore.md).
//   - Every entry of a state belongs to one aggregate ([engine.Owner]) and goes to that
//     aggregate's partition. The digests of the entries before and after are equal, or the
//     copy is refused.
//   - A folder without a manifest is no backup: it is written last. Every file is held
//     against its checksum before anything is written to a cluster.
//   - Topics that are being filled, and topics that were left, are closed: the service does
//     not start on them ([topology.Closed]).
//   - No secret is opened: sealed ones are copied as they are.
//
// File map:
//
//	transfer.go  the three uses: backup, restore, repartition
//	log.go       the topics of a cluster, and what else may be in their place
//	source.go    the states of a cluster, folded beside the service, and its position
//	remains.go   records that the states have not taken, and others that nothing replaces
//	cut.go       which records belong to the copy's position, and which are made again
//	portable.go  entries and records without offsets of the old topics
//	copy.go      what lies between two clusters
//	digest.go    whether two sets of states are equal
//	tuples.go    the form of a file
//	folder.go    a backup: files, checksums, the manifest
//	divide.go    states of another partition count
//	place.go     a copy becomes the topics of a cluster
//	closing.go   who still uses the topics, and keeping the service off them
package transfer
