// Package supervise runs this program a second time, as a child, and says how the child
// ended.
//
// It hides how an order to end reaches the child, and that the child goes when its parent
// does.
//
// Invariants:
//
//   - When [Run] returns an [End], the child is no process any more: none of its threads
//     runs, and its connections are closed.
//   - On Linux the kernel kills the child when its parent dies, however that died. Other
//     systems offer nothing for it: there a child outlives a parent that is killed.
//   - The child is in a process group of its own: a terminal's Ctrl-C reaches its parent
//     alone, who passes it on once. A second one ends the parent at once, and so the child.
//
// There is one child, and it is waited for. Nothing is started again here: whoever started
// the parent does that.
package supervise
