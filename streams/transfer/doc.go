// Package transfer takes a deployment to other topics: to another partition count
// (repartition), into a folder (backup), from a folder into an empty cluster (restore), and record
// by record at the same offsets from the embedded broker of one machine to a cluster (mirror).
//
// It hides how the states of all partitions are read at one position while the service
// runs, in which form they are stored between two clusters, and how they are divided again.
//
// A mirror preserves offsets, because all positions of the service are offsets: a task's inputs in
// its journal, the follower's cursor, the projector's progress, groups. So the history is built
// from the copy, which a restore cannot do. Where the source has an offset without a record (a
// transaction's marker, what was aborted or compacted), the target gets a filler, which readers
// skip as they skip markers. Retention's deletions are repeated: both begin at the same offset.
//
// Invariants of a mirror:
//
//   - The target's partition is a prefix of the source's: an interrupted copy is continued, and a
//     repeated one adds new records.
//   - A partition with other content is refused, and so is one that somebody else writes to.
//   - Positions of groups are copied when all records are.
//
// Invariants of the others:
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
//	transfer.go  the three uses: backup, restore, repartition; keeping the service off the topics
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
//	mirror.go    a mirror: topics, partition by partition, and positions of groups
package transfer
