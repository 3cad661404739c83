// Package sim runs the whole of engine, follower and directory in one goroutine
// from one seed, breaks it wherever it can be broken, and holds the guarantees
// of docs/architecture.md while it is broken. docs/simulation.md says how to use it.
//
// It hides the log, the clocks, the receivers, the clients and the ledger
// network, all of which are in memory, and the order in which things happen. The
// code under it is the one that runs: streams.Core with the engine's handler and
// engine.Flights on Pebble, follower.Reading, directory.Directory. What it stands in for
// is Kafka: its clients, which perform what a core asks for (streams.Task), and its group
// (streams.Membership).
//
// Invariants:
//
//   - A run is a function of its seed and the steps that are left out. Each step
//     draws from a generator of its own, so that leaving one out does not change
//     what others draw, and a failing run can be made shorter.
//   - An action of a streams.Core is a step, a commit is two, and a journal is read in
//     several. Anything may happen between two steps; a crash also within a
//     commit, within an append, and between two attempts of a turn.
//   - The model is the fold of what was decided to stand, in its order, by
//     package domain alone. Checkers compare with it at once: they do not wait
//     for calm. The reference model is another fold of the same, without the rules
//     of package domain, and so finds what is wrong in engine and model alike.
//   - After the steps with faults all is calm: processes run, receivers answer
//     200, clients ask again. Then everything must come to rest.
//
// Two forms of broker are played. The embedded one tears a commit when it is
// killed: any set of the transaction's partitions stands, positions do not. The
// other is a cluster: a commit is decided as a whole, and its markers come late
// and one by one. In both, a start may be told of an end that is too early.
//
// A crash loses state: a store's write-ahead log is cut anywhere, or the store
// is gone.
//
// File map:
//
//	run.go        one run: its options, its report, coming to rest
//	world.go      what there is, time, and what a step can be
//	log.go        the log and its transactions
//	process.go    engine processes, their group, crashes, pauses
//	task.go       a task: performs the actions of its streams.Core, a step each
//	follower.go   follower processes, their election and directories
//	past.go       backfills, and what they must have covered
//	chain.go      the ledger network
//	receivers.go  receivers and the dispatcher
//	clients.go    commands and their answers
//	model.go      the fold of the journal, by package domain
//	reference.go  the reference model: what the specification says of endpoints and deliveries
//	answers.go    what it says of answers, by the reference model
//	checks.go     what is held while a run goes on
//	judged.go     what may and must become of each payment
//	rules.go      who asked for what
//	verify.go     state against the fold, and what is held at rest
//	shrink.go     fewer steps that fail alike
//	bugs.go       faults of the system itself, planted to see that they are found;
//	              mutants_test.go has more, compiled into the code
package sim
