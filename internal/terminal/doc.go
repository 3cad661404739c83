// Package terminal is how the program tells a person what happens while it works.
//
// It hides that a terminal may stand still, which holds nothing back, and that there may
// be none, which a bar of progress takes into account. Answers of commands are printed
// by internal/cli.
//
// File map:
//
//	queue.go     a writer that never waits for its terminal
//	lines.go     one line for each thing that happened
//	progress.go  how far a long piece of work is
package terminal
