// Package transfer moves or copies a deployment to other topics: to another partition count
// (repartition), into a folder (backup), from a folder into an empty cluster (restore), and record
// by record at the same offsets from the embedded broker of one machine to a cluster (mirror).
//
// It hides how the states of all partitions are read at one position while the service runs, the
// format in which they are stored between two clusters, and how they are divided again.
//
// A mirror preserves offsets, because all positions of the service are offsets: a task's inputs in
// its journal, the follower's cursor, the projector's progress, groups. The history can therefore
// be built from the copy, which a restore cannot do. If the source has an offset without a record
// (a transaction marker, an aborted or a compacted record), the target gets a filler, which readers
// skip like markers. Retention's deletions are repeated: both begin at the same offset.
//
// Invariants of a mirror:
//
//   - The target's partition is a prefix of the source's: an interrupted copy is continued, and a
//     repeated one adds new records.
//   - A partition with other content is refused, and so is one that another program writes to.
//   - Positions of groups are copied after all records.
//
// Invariants of the others:
//
//   - A copy is consistent. The follower's cursor is read first, then the ends of the inputs,
//     then the states are folded to the ends of the journals. So the cause of a record in the copy
//     is in the copy too, and the consequences of the copy are in it or are made again
//     (docs/decisions/restore.md).
//   - Every entry of a state belongs to one aggregate ([engine.Owner]) and goes to that
//     aggregate's partition. The digests of the entries before and after are equal, or the copy is
//     refused.
//   - A folder without a manifest is not a backup: the manifest is written last. Every file is
//     checked against its checksum before anything is written to a cluster.
//   - Topics that are being filled, and topics that were left, are closed: the service does not
//     start on them ([topology.Closed]).
//   - No secret is opened: sealed ones are copied unchanged.
//
// File map:
//
//	transfer.go  the three uses: backup, restore, repartition; keeping the service off the topics
//	log.go       the topics of a cluster, or a replacement for them
//	source.go    the states of a cluster, folded while the service runs, and its position
//	remains.go   records that the states have not taken, and others that exist nowhere else
//	cut.go       which records belong to the copy's position, and which are made again
//	portable.go  entries and records without offsets of the old topics
//	copy.go      the copy between two clusters
//	digest.go    whether two sets of states are equal
//	tuples.go    the format of a file
//	folder.go    a backup: files, checksums, the manifest
//	divide.go    states of another partition count
//	place.go     a copy becomes the topics of a cluster
//	mirror.go    a mirror: topics, partition by partition, and positions of groups
package transfer
