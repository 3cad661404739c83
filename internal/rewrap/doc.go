// Package rewrap puts what endpoints keep sealed under a new master key, and drops keys
// that nothing needs any more, while the service goes on.
//
// It hides the walk over the table of endpoints, and how the engine is asked to keep a
// value under another key without losing what was changed meanwhile.
//
// Invariants:
//
//   - The key is rotated only once the service is known to be there: what can not be
//     resealed is not left under a key that is already old.
//   - Each value is resealed by the engine, endpoint by endpoint, so a walk can be cut
//     short and repeated at any point. One partition's rows are in memory at a time.
//   - A key is dropped only where neither the table nor a command that waits to be
//     decided has anything that it sealed.
//
// File map:
//
//	rewrap.go   what the commands ask for: a rewrap, a drop
//	walk.go     walks over the table of endpoints
//	waiting.go  commands that no engine has decided on yet
//	report.go   what is reported of a rewrap
package rewrap
