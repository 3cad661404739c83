// Package config declares each flag that commands share once (flag.go): its name, type, default,
// heading, roles, help text and check. The name determines its environment variable. The package
// also finds the service that a command uses, either through run.json in a data folder or through
// addresses, which take precedence.
//
// It hides how flags are checked against each other, the networks' public servers, how flags select
// a ledger source and a login, and how a command is submitted to the engine without the API.
//
// Invariants:
//
//   - An error names its flag, and never repeats a value that may be secret.
//   - The data folder's API key is only sent to the folder's service: another --api-url
//     requires a key.
//   - Opening a source or a client sends no request.
//   - A command is retried with the same id, because it may have arrived.
//
// File map:
//
//	flag.go     declarations of flags, and checks of single values
//	node.go     flags of the roles and the mail server, and the resulting node.Config
//	kafka.go    Kafka and ClickHouse
//	ledgers.go  the network and its ledger sources
//	keys.go     a new API key; an endpoint's signing secrets
//	service.go  the service that a command uses: Kafka, the API, the history, process health
//	engine.go   commands to the engine and accounts, without the API
package config
