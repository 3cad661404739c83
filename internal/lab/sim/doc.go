// Package sim runs the engine, the follower and the directory in one goroutine from one seed. It
// injects faults everywhere and continuously checks the guarantees of docs/architecture.md. See
// docs/simulation.md for how to use it.
//
// It hides the log, the clocks, the receivers, the clients and the ledger network, all of which are
// in memory, and the order of events. It runs production code: task.Core with the engine's handler
// and engine.Flights on Pebble, follower.Reading, and directory.Directory. It replaces Kafka, that
// is, the clients that perform a core's actions (task.Task) and the group (kafka.Membership).
//
// Invariants:
//
//   - A run is a function of its seed and the remaining steps. Each step has its own random number
//     generator, so that removing one doesn't change the others. So failing runs can be shrunk.
//   - Each action of a task.Core is one step, a commit takes two, and reading a journal takes
//     several. Anything may happen between two steps. Crashes also happen within a commit or an
//     append, and between two attempts of a turn.
//   - The model is the fold of the committed facts in order, by package domain alone. Checkers
//     compare with it immediately instead of at the end. The reference model is another fold of
//     the same facts without the rules of package domain, so it finds bugs that the engine and
//     the model share.
//   - After the steps with faults, faults stop: processes run, receivers respond with 200, and
//     clients repeat their requests. Then everything must settle.
//
// As on a cluster and on the embedded broker, a commit is atomic. Its markers are written
// immediately, or later one by one. A start may see an end offset that is too low.
//
// A crash loses state: a store's write-ahead log is truncated at any point, or the store is lost.
// Retention deletes the records of the journal and the snapshots that no restore needs, according
// to a task. The newest snapshot of a partition may be damaged.
//
// File map:
//
//	run.go        a run: options, report, settling
//	world.go      the simulated world, time, and the possible steps
//	log.go        the log and its transactions
//	process.go    engine processes, their group, crashes, pauses
//	retention.go  deleting, damaging and loading snapshots
//	moves.go      moving the deployment to another partition count
//	backups.go    disasters: everything except a backup is lost, and the backup is restored
//	goback.go     resetting the checkers to the contents of a backup
//	standbys.go   copies of partitions on processes that don't own them; the group's balancer
//	task.go       a task: performs the actions of its task.Core, one per step
//	follower.go   follower processes, their election and directories
//	past.go       backfills, and what they must cover
//	chain.go      the ledger network
//	panel.go      three sources that are read as one; one of them lies
//	mails.go      the mailer and its server, and the required outcomes of mails
//	receivers.go  receivers and the dispatcher
//	clients.go    commands and their answers
//	history.go    the history's view of a delivery, and its delay
//	model.go      the fold of the journal by package domain
//	reference.go  the reference model: the specification of endpoints and deliveries
//	answers.go    the required answers, according to the reference model
//	checks.go     the checks during a run
//	judged.go     which matches each payment may and must have; watches for one payment
//	verify.go     comparing state with the fold, and the final checks
//
// mutants_test.go plants bugs that the checkers must find.
package sim
