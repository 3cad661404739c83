// Package internal holds no code. The packages below it, by what they are for:
//
// The service
//
//   - node assembles the roles; standalone is `lumenhook run`, server is `lumenhook serve`.
//   - egress makes every request to an address that a user chose: webhooks.
//   - apiserver is the HTTP server around package api.
//   - stellar is all that knows the Stellar network.
//   - embedded has the broker, the ClickHouse engine and the development network of run.
//   - signing keeps the deployment's keys of signatures by Ed25519.
//   - sealing encrypts secrets at rest; pki issues the certificates of a run; secretfile
//     changes files of keys.
//   - retry waits and tries again: of loops in this program. Whether a delivery is tried
//     again is decided in domain/retry.go.
//   - telemetry, supervise, startstop, standing, orphans, webguard, freeport serve the process.
//
// The command line
//
//   - cli has its rules, its errors and its answers; terminal shows work under way.
//   - mcpserver answers assistants, by the Model Context Protocol.
//   - completion is what shells complete.
//   - connect finds the service that a command is for; runfile is a data folder.
//   - apicli, devnetcli, doctor, fixtures, forward, ledgerread, rewrap, sqlshell, topicview
//     are what commands do.
//   - packages that end in flags hold flags that several commands share.
//
// Tests
//
//   - brokertest, kafkatest, testkit and receiver are used by tests.
//   - arch checks the rules of the house.
//   - lab is a module of its own, and no part of the product. Its sim runs the engine, follower and
//     directory from a seed, with faults, its trial the real program from outside; bench has the
//     benchmarks of the whole path.
package internal
