// Package connect finds the service that a command is for: by the run.json of a data
// folder, or by addresses, which take precedence. Addresses and logins are flags,
// variables, or what the files of `lumenhook serve` say.
//
// It hides which of the two is used, the logins, and how a command is submitted to the
// engine without the API.
//
// Invariants:
//
//   - A key of a data folder is sent to the service of that folder only: with another
//     --api-url a key must be given.
//   - Nothing is requested before the answer is needed.
//   - A command that is repeated, because it is unknown whether it arrived, is the same
//     command.
//
// File map:
//
//	service.go   the flags; Kafka
//	api.go       a client of the API
//	history.go   the history in ClickHouse
//	process.go   where a process answers operators
//	health.go    the health of a process
//	sources.go   the sources of its ledgers
//	commands.go  commands to the engine, without the API
//	accounts.go  the accounts of a deployment, as their table has them
package connect
