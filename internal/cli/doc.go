// Package cli contains what all subcommands share: parsing a command line, reporting its faults,
// and printing results. It hides cobra, pflag and the rules below from the subcommands.
//
// Invariants:
//
//   - An invalid command line has no effect and exits with ExitUsage. The message says which
//     word is wrong and what is allowed. A value that is invalid on its own makes the command
//     line invalid, whether the program or the API rejects it. A failure that depends on a
//     service's state (an unknown id, a name that resolves to a private address, a response
//     without the --field member) exits with ExitFailure.
//   - Every flag can be set by an environment variable (--data-dir by LUMENHOOK_DATA_DIR).
//     Unknown variables with that prefix are errors, so that a misspelled setting does not
//     silently keep its default. The same applies to config files and secret folders.
//   - Precedence, highest first: flag, variable, secret folder, config file, default.
//   - A command that shares another command's files ignores settings of that command that it
//     does not have. Settings unknown to both are errors.
//   - All faults of a command line are reported together.
//   - Messages never repeat the value of a flag that may be a secret.
//
// File map:
//
//	execute.go   running a command line, exit codes, suggestions for unknown words
//	help.go      flags grouped under headings
//	settings.go  settings from variables, files and secret folders, and their origins
//	explain.go   explaining API errors and connection failures
//	output.go    tables, JSON, single fields; no terminal control sequences
//	fields.go    flags for the fields of the API client's structs
//	progress.go  progress of long operations, on a terminal and in a log
//	values.go    common values: addresses, days, files
//	version.go   build information
package cli
