// Package commands is the API's way to the engine: it appends a command and
// gives back the engine's answer.
//
// It hides the two topics in between, `commands` and `results`, and the one
// goroutine that reads the results of all partitions and hands each to whoever
// waits for its command id.
//
// Invariants:
//
//   - Results are read from the ends that the topic had when the client was
//     opened, and a waiter is registered before its command is appended, so no
//     answer comes too early.
//   - A command whose answer did not come in time may still take effect, exactly
//     once: its id makes it idempotent. Whoever asks again with the same id gets
//     the same answer.
//   - The number of commands under way is bounded; more are refused at once, and
//     nothing of them is appended.
//
// File map:
//
//	client.go   submitting
//	results.go  reading results
package commands
