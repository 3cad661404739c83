// Package startstop hides in which order parts of a process are started and
// stopped, and what becomes of one that ends by itself.
//
// Invariants:
//
//   - Parts are stopped in the reverse order of their start: what a part stands on is
//     there until it has ended.
//   - Stop returns when everything has ended that was started. It may be called again,
//     and while parts are started: what is started from then on is stopped at once.
//   - A loop that ends before it is stopped is told to Stack.Failed, once, with its
//     name. Nothing is restarted here.
//
// File map:
//
//	service.go  what can be started, stopped and asked
//	stack.go    what was started, and its loops
//	run.go      a process: started, serving, stopped
package startstop
