// Package config declares the flags that commands share, each once (flag.go): its name, from which
// its variable follows, its type, default, heading, roles, help and check. It finds the service
// that a command is for: by the run.json of a data folder, or by addresses, which take precedence.
//
// It hides how flags are checked against each other, the public servers of networks, how a source
// of ledgers is made of its flags, which login is used, and how a command is submitted to the
// engine without the API.
//
// Invariants:
//
//   - A fault names its flag, and repeats no value that may be a secret.
//   - A key of a data folder is sent to the service of that folder only: with another
//     --api-url a key must be given.
//   - Nothing is requested before the answer is needed.
//   - A command that is repeated, because it is unknown whether it arrived, is the same
//     command.
//
// File map:
//
//	flag.go        the declaration of a flag, and checks of one value
//	node.go        the flags of the roles; the node.Config that they make
//	mail.go        the mail server
//	kafka.go       Kafka
//	clickhouse.go  ClickHouse
//	ledgers.go     the network, and where its ledgers come from
//	sources.go     the sources of ledgers that those flags name
//	keys.go        a new API key; an endpoint's signing secrets
//	service.go     the service of a command; Kafka
//	api.go         a client of the API
//	history.go     the history in ClickHouse
//	process.go     the health of a process, and the sources of its ledgers
//	engine.go      commands to the engine, without the API
//	accounts.go    the accounts of a deployment, as their table has them
package config
