// Package retry retries what may succeed later.
//
// It hides how long to wait and when to stop: waits that double up to a limit, with jitter
// so that callers that failed together do not retry together; a reset after progress;
// limits by a context, a number of tries or a time; and which errors are permanent. All
// retries of the program use one of these:
//
//	Do, Value   until it succeeds
//	Forever     one run after another, until the context ends
//	Backoff     the waits alone, for a loop of another shape
//	Sleep       one wait of a known length
//
// An error is permanent if Permanent wraps it, at any depth; sentinels may be wrapped too.
// The mark stays on the error that Do, Value and Forever return, so it also ends enclosing
// loops. A loop that knows itself which errors are transient uses Policy.If, which marks
// nothing.
//
// Jitter uses the global random source unless a policy sets another: Seeded is
// deterministic. Time is only the runtime's timers, which are virtual in a testing/synctest
// bubble.
//
// File map: retry.go (everything).
package retry
