// Package schemas contains the permanent formats: the Protobuf messages of facts, commands and rows
// (kafka/), the tables of the history (clickhouse/), the JSON Schemas of events (events/), the test
// vectors of their signatures (vectors/), the API description (openapi.yaml), and the topics.
//
// It converts between these formats and the types of package domain, and hides the generated code
// from all other packages. Every later version must be able to read every fact. To ensure this,
// golden/ contains one file for each fact type and schema version, which is never edited.
//
// File map:
//
//	topics.go      topics: names, partitions and cleanup
//	clickhouse.go  migrations of the history's tables
//	message.go     record values, and headers with their type
//	facts.go       facts
//	commands.go    commands
//	answers.go     answers to commands, as records and in a task's store
//	accounts.go    accounts and keys: rows, stored state, commands, facts, and key uses
//	endpoints.go   endpoints, secrets and headers: rows, stored state, commands and facts
//	watches.go     watches and rules: rows, stored state, commands and facts
//	backfills.go   backfills of a watch and their facts
//	deliveries.go  deliveries, events, attempts and logs: stored state and facts
//	mails.go       notices and mail orders: stored state, commands and facts
//	matches.go     matches, as followers and endpoints read them
//	payments.go    payments
//	moves.go       balance moves
//	ledgers.go     ledgers that were read, and quarantined transactions
//	deadletter.go  records that were set aside
//	openapi.go     embedded files: API description, reference, vectors and events' JSON Schemas
//	vectors/       test vectors of signatures, and a checker in JavaScript
package schemas
