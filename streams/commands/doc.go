// Package commands sends commands to the engine for the API: it appends a command and returns the
// engine's answer.
//
// It hides the topics `commands` and `results`, and the goroutine that reads the results of all
// partitions and passes each to the callers that wait for its command id.
//
// Invariants:
//
//   - Results are read from the ends that the topic had when the client was opened, and a caller is
//     registered before its command is appended, so no answer comes too early.
//   - A command whose answer did not arrive in time may still take effect, exactly once, because
//     its id makes it idempotent. A caller that repeats it with the same id gets the same answer.
//   - The number of commands in flight is bounded. Further ones are rejected immediately, and not
//     appended.
//
// File map:
//
//	client.go   submitting
//	results.go  reading results
package commands
