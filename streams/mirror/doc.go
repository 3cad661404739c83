// Package mirror copies the topics of one cluster to another, record by record at the same
// offsets: from the embedded broker of one machine to a cluster.
//
// All positions of the service are offsets: a task's inputs in its journal, the follower's
// cursor, the projector's progress, groups. So the copy preserves them. Where the source
// has an offset without a record (a transaction's marker, what was aborted or compacted), the
// target gets a filler, which readers skip as they skip markers. What retention deleted in the
// source is deleted in the target too: both begin at the same offset.
//
// Invariants:
//
//   - The target's partition is a prefix of the source's: an interrupted copy is
//     continued, and a repeated one adds new records.
//   - A partition with other content is refused, and so is one that somebody else writes
//     to.
//   - Positions of groups are copied when all records are.
//
// File map:
//
//	mirror.go     topics, partition by partition
//	positions.go  positions of groups
package mirror
