// Package connect is how a command finds the service that it is about: by the run.json of
// a data folder, or by addresses, which win. Addresses and logins are flags, variables, or
// what the files of `lumenhook serve` say.
//
// It hides which of the two counts, what logs in, and how a command is given to the
// engine without the API.
//
// Invariants:
//
//   - A key of a data folder is shown to the service of that folder alone: with another
//     --api-url a key must be given.
//   - Nobody is asked anything before the answer is needed.
//   - A command that was given twice, because it was not known whether it arrived, is the
//     same command.
//
// File map:
//
//	service.go   the flags; Kafka
//	api.go       a client of the API
//	history.go   the history in ClickHouse
//	health.go    how a process says it is
//	commands.go  commands to the engine, without the API
package connect
