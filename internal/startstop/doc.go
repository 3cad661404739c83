// Package startstop starts and stops the parts of a process in order, and handles parts
// that end by themselves.
//
// Invariants:
//
//   - Parts are stopped in the reverse order of their start: what a part depends on runs
//     until it has ended.
//   - Stop returns when everything that was started has ended. It may be called again,
//     and while parts are being started: these are then stopped at once.
//   - A loop that ends before it is stopped is reported to Stack.Failed, once, with its
//     name. Nothing is restarted here.
//
// File map:
//
//	service.go  what can be started, stopped and checked
//	stack.go    what was started, and its loops
//	run.go      a process: started, serving, stopped
package startstop
