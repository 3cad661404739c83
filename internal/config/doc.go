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
//	flag.go     the declaration of a flag, and checks of one value
//	node.go     the flags of the roles and of the mail server; the node.Config that they make
//	kafka.go    Kafka and ClickHouse
//	ledgers.go  the network, and the sources of its ledgers
//	keys.go     a new API key; an endpoint's signing secrets
//	service.go  the service of a command: Kafka, the API, the history, the health of a process
//	engine.go   commands to the engine, and the accounts, without the API
package config
