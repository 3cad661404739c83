// Package sqlshell asks the history queries on behalf of a person or a script, and
// prints the answers.
//
// It hides where a statement ends, the line editing of a terminal, and how values of
// ClickHouse are written in a table, as JSON and as CSV.
//
// File map:
//
//	shell.go       one query, a script of them, a shell
//	statements.go  taking statements off a text
//	format.go      answers as tables, JSON and CSV
package sqlshell
