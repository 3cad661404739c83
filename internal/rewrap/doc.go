// Package rewrap reseals the endpoints' secrets with a new master key, and drops keys that
// are not needed any more, while the service runs.
//
// It hides the walk over the table of endpoints, and how the engine reseals a value without
// losing concurrent changes.
//
// Invariants:
//
//   - The key is rotated only once the service is known to run: otherwise values would
//     stay sealed with a key that is already old.
//   - Each value is resealed by the engine, endpoint by endpoint, so a walk can be
//     interrupted and repeated at any point. One partition's rows are in memory at a time.
//   - A key is dropped only if neither the table nor an undecided command has anything
//     that it sealed.
//
// File map:
//
//	rewrap.go   the commands: a rewrap, a drop
//	walk.go     walks over the table of endpoints
//	waiting.go  commands that no engine has decided yet
//	report.go   the report of a rewrap
package rewrap
