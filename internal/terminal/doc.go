// Package terminal prints what happens while the program works.
//
// It hides that a terminal may be paused, which delays nothing, and that there may be none,
// which a progress bar takes into account. Answers of commands are printed by internal/cli.
//
// File map:
//
//	queue.go     a writer that never waits for its terminal
//	lines.go     one line for each occurrence
//	progress.go  the progress of long work
package terminal
