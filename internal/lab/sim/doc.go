// Package sim runs engine, follower and directory in one goroutine from one seed, injects faults
// everywhere, and checks the guarantees of docs/architecture.md all the time. docs/simulation.md
// says how to use it.
//
// It hides the log, the clocks, the receivers, the clients and the ledger network, all of which are
// in memory, and the order of events. It runs the production code: task.Core with the engine's
// handler and engine.Flights on Pebble, follower.Reading, directory.Directory. It replaces Kafka:
// its clients, which perform a core's actions (task.Task), and its group (kafka.Membership).
//
// Invariants:
//
//   - A run is a function of its seed and the remaining steps. Each step has its own random
//     generator, so that removing one does not change the others, and a failing run can be shrunk.
//   - Each action of a task.Core is a step, a commit is two, and a journal is read in several.
//     Anything may happen between two steps; a crash also within a commit, within an append, and
//     between two attempts of a turn.
//   - The model is the fold of the committed facts, in order, by package domain alone. Checkers
//     compare with it at once: they do not wait for the end. The reference model is another fold of
//     the same facts, without the rules of package domain, and so finds bugs that engine and model
//     share.
//   - After the steps with faults, faults stop: processes run, receivers answer 200, clients repeat
//     their requests. Then everything must settle.
//
// A commit is atomic, on a cluster and on the embedded broker. Its markers are written at once, or
// late and one by one. A start may get an end offset that is too low.
//
// A crash loses state: a store's write-ahead log is truncated anywhere, or the store is lost.
// Retention deletes records of the journal and of the snapshots that no restore needs according to
// a task, and the newest snapshot of a partition is damaged.
//
// File map:
//
//	run.go        one run: its options, its report, settling
//	world.go      the simulated world, time, and the possible steps
//	log.go        the log and its transactions
//	process.go    engine processes, their group, crashes, pauses
//	retention.go  snapshots: deleted, damaged, loaded
//	moves.go      moving the deployment to another partition count
//	backups.go    disasters: all is lost but a backup, which is restored
//	goback.go     resets the checkers to the content of a backup
//	standbys.go   copies of partitions on processes that do not own them; their group's balancer
//	task.go       a task: performs the actions of its task.Core, a step each
//	follower.go   follower processes, their election and directories
//	past.go       backfills, and what they must have covered
//	chain.go      the ledger network
//	panel.go      three sources of it that are read as one; one of them lies
//	mails.go      the mailer and its server, and the required outcome of mails
//	receivers.go  receivers and the dispatcher
//	clients.go    commands and their answers
//	history.go    the history's view of a delivery, and its delay
//	model.go      the fold of the journal, by package domain
//	reference.go  the reference model: the specification of endpoints and deliveries
//	answers.go    the required answers, by the reference model
//	checks.go     the checks during a run
//	judged.go     which matches each payment may and must have; watches for one payment
//	verify.go     state against the fold, and the checks at rest
//
// mutants_test.go plants defects, which the checkers must find.
package sim
