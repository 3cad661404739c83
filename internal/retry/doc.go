// Package retry retries operations that may succeed later.
//
// It decides how long to wait and when to stop. Waits double up to a limit, start over after
// progress, and have jitter, so that callers that failed together don't retry together. Retries can
// be limited by a context, a number of attempts or a time, and errors can be marked as permanent.
// All retries in Lumenhook use one of these functions:
//
//	Do, Value   retry until success
//	Forever     runs a function repeatedly until the context ends
//	Backoff     provides the waits for other loops
//	Sleep       waits for a fixed time
//
// An error is permanent if it wraps an error marked by Permanent. The mark stays on the errors that
// Do, Value and Forever return, so it also ends enclosing loops. A loop that knows which errors are
// transient can use Policy.If instead, which doesn't mark errors.
//
// Jitter comes from the global random source by default; Seeded is deterministic. Only runtime
// timers are used, which are virtual in a testing/synctest bubble.
//
// File map: retry.go (everything).
package retry
