// Package supervise runs this program a second time, as a child, and says how the child
// ended.
//
// It hides how the child is told to end, and that it ends with its parent.
//
// Invariants:
//
//   - When [Run] returns an [End], the child's process is gone: none of its threads
//     runs, and its connections are closed.
//   - On Linux the kernel kills the child when its parent dies, however it dies. Other
//     systems cannot: there a child outlives a parent that is killed.
//   - The child is in a process group of its own: a terminal's Ctrl-C reaches its parent
//     alone, who passes it on once. A second one ends the parent at once, and so the child.
//
// There is one child, and it is waited for. Nothing is restarted here: whoever started the
// parent does that.
package supervise
