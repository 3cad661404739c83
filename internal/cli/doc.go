// Package cli is what every subcommand of the program has in common: how a command
// line is understood, how a fault of it is told, and how an answer is printed. It
// hides cobra's and pflag's own words and the rules below from the subcommands.
//
// Invariants:
//
//   - A command line that is not understood has no effect, ends with ExitUsage, and
//     its message says which word is wrong and what could stand there. Whatever
//     fails later ends with ExitFailure.
//   - Every flag can be set by a variable (--data-dir by LUMENHOOK_DATA_DIR), and a
//     variable with that prefix which sets nothing is a fault: a misspelt setting
//     must not pass for the default. The same holds for a configuration file and a
//     folder of secrets, where a command has them.
//   - A flag wins over its variable, that over the folder of secrets, that over the
//     file, that over the default.
//   - A command that takes the files of another passes over what is the other's alone;
//     what neither knows is a fault there too.
//   - All faults of a command line are told at once.
//   - The value of a flag that may be a secret is never repeated.
//
// File map:
//
//	execute.go      a command line, from its words to an exit code
//	arguments.go    how many words a command takes
//	environment.go  variables, known and unknown
//	configfile.go   settings of a YAML file and of a folder of secrets
//	sharedconfig.go what a command takes of the files of another
//	origins.go      which value counts, and where it came from
//	nearest.go      the word that was meant
//	explain.go      refusals of the API and dead connections, in words
//	output.go       tables, JSON, one member of an answer
//	rows.go         the lines of an answer in columns
//	table.go        a table with numbers at the right, for many rows
//	lists.go        flags of lists, and how a list goes on
//	values.go       what several commands read: addresses, days, files
//	version.go      what was built
package cli
