// Package startstop starts and stops the parts of a process in order, and restarts what fails
// in between.
//
// Invariants:
//
//   - Parts are stopped in the reverse order of their start: what a part depends on runs
//     until it has ended.
//   - Stop returns when everything that was started has ended. It may be called again,
//     and while parts are being started: these are then stopped at once.
//   - A loop that ends before it is stopped is restarted, with growing waits. Until it has
//     worked again for a while its part is not ready. Nothing else is stopped by that.
//   - Only Stack.Failed ends the process, and a panic (docs/decisions/failing-parts.md).
//
// File map:
//
//	service.go  what can be started, stopped and checked
//	stack.go    what was started
//	loop.go     the loops of what was started, and their restarts
//	run.go      a process: started, serving, stopped
package startstop
