// Package schemas holds the permanent formats: the Protobuf forms of facts, commands and rows
// (kafka/), the tables of the history (clickhouse/), the events as receivers get them (events/) and
// their signature (vectors/), the description of the API (openapi.yaml), and the names of the
// topics.
//
// It translates between those forms and the types of package domain, and hides the generated code
// from every other package. A fact that was once written can be read by every later version:
// golden/ holds one file for each fact type and schema version, and those files are never edited.
//
// File map:
//
//	topics.go      names, partitions and cleanup of the topics
//	clickhouse.go  the tables of the history, clickhouse/
//	message.go     a record's value and the headers with its type
//	facts.go       facts of the journal
//	commands.go    commands
//	answers.go     answers to commands, and how tasks store them
//	accounts.go    accounts and their keys: rows, stored state, commands, facts, when a key was
//	               used
//	endpoints.go   endpoints, their secrets and headers: likewise
//	watches.go     watches and their rules: likewise
//	backfills.go   a watch's state of backfills, and their facts
//	deliveries.go  deliveries, events, attempts and their logs: stored state, facts
//	mails.go       notices as tasks store them, their facts, orders of mails and answers
//	matches.go     matches, as followers and endpoints read them
//	payments.go    payments
//	moves.go       changes of balances
//	ledgers.go     ledgers that were read, and transactions that could not be
//	deadletter.go  records that do not count
//	openapi.go     the description of the API, openapi.yaml; JSON Schemas of the events, events/
//	vectors/       the test vector of the signature, and a checker in JavaScript
package schemas
