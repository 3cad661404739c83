// Package cli is shared by every subcommand of the program: how a command line is
// parsed, how its faults are reported, and how an answer is printed. It hides cobra's and
// pflag's own messages and the rules below from the subcommands.
//
// Invariants:
//
//   - An invalid command line has no effect, ends with ExitUsage, and its message says
//     which word is wrong and what is allowed. A value that is wrong by itself makes it
//     invalid, whether the program finds that or the API does. What depends on the state
//     of a service (an id that does not exist, a name that leads to a private address, an
//     answer without the member of --field) ends with ExitFailure.
//   - Every flag can be set by a variable (--data-dir by LUMENHOOK_DATA_DIR), and a
//     variable with that prefix which sets nothing is a fault: a misspelt setting must not
//     silently leave the default. The same holds for a configuration file and a folder of
//     secrets, where a command has them.
//   - A flag takes precedence over its variable, that over the folder of secrets, that
//     over the file, that over the default.
//   - A command that uses the files of another ignores settings of the other's alone;
//     what neither knows is a fault there too.
//   - All faults of a command line are reported at once.
//   - The value of a flag that may be a secret is never repeated.
//
// File map:
//
//	execute.go   a command line, from its words to an exit code; suggestions for unknown words
//	help.go      flags under headings
//	settings.go  settings from variables, files and folders of secrets, and their origins
//	explain.go   refusals of the API and dead connections, in words
//	output.go    columns, JSON, one member of an answer, without terminal commands
//	fields.go    flags of the fields of the API client's structs
//	progress.go  the progress of long work, on a terminal and in a log
//	values.go    values of several commands: addresses, days, files
//	version.go   what was built
package cli
