// Package mirror hides how the topics of one cluster are brought to another, record by
// record at the same offsets: from the embedded broker of one machine to a cluster.
//
// All that the service knows of positions is offsets: a task's inputs in its journal,
// the follower's cursor, the projector's progress, groups. So the copy keeps them.
// Where the source has an offset without a record (a transaction's marker, what was
// aborted, compacted or deleted by retention), the target gets a filler, which readers
// skip as they skip markers.
//
// Invariants:
//
//   - The target's partition is a beginning of the source's: a copy that ended early
//     goes on where it stands, and one that is repeated adds what the source has gained.
//   - A partition that holds something else is refused, and so is one that somebody else
//     writes to.
//   - Positions of groups are copied when all records are.
//
// File map:
//
//	mirror.go     topics, partition by partition
//	positions.go  what groups have taken
package mirror
