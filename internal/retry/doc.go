// Package retry tries again what may succeed later.
//
// It hides how long to wait and when to stop: waits that double up to a bound, with
// jitter so that those who failed together do not come back together; a start anew after
// progress; what a context, a number of tries or a time ends; and which errors no waiting
// mends. Each way to try again that the program has is one of these:
//
//	Do, Value   until it succeeds
//	Forever     one run after another, until the context ends
//	Backoff     the waits alone, for a loop of another shape
//	Sleep       one wait of a known length
//
// An error is permanent where Permanent was put around it, at any depth, as it may be
// around a sentinel. The mark stays on the error that Do, Value and Forever return, so it
// ends the loops around them as well. A loop that itself knows which errors pass says so
// by Policy.If, which marks nothing.
//
// Jitter is of the global random source unless a policy brings another: Seeded repeats.
// Time is the runtime's timers alone, which stand still in a testing/synctest bubble.
//
// Files: policy.go (how long), loop.go (the loops), permanent.go (errors).
package retry
