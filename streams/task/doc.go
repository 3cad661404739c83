// Package task runs the stateful consumers: each task owns one partition number, and its [Handler]
// decides. It knows logs, transactions, state and time. It knows nothing of webhooks and does not
// import package domain.
//
// It hides how turns, recovery, snapshots and standbys work: the packages above see [Task] with its
// [Core], and the handler that they give it.
//
// # One turn of a task
//
// A task takes a bounded batch of inputs, lets its handler decide, and then, in this order:
//
//  1. writes facts, rows, results and input positions in ONE Kafka transaction;
//  2. writes the folded state and the journal checkpoint in ONE Pebble batch;
//  3. starts the effects that the handler returns.
//
// A crash before 1 ends repeats the inputs: they are deduplicated by identifier. A crash between 1
// and 2 refolds the journal from the checkpoint. A crash after 2 starts the effects again, because
// what is due is part of the state.
//
// The owner of a partition finds the end of the journal by writing a record of its own
// (docs/decisions/real-kafka.md).
//
// # Snapshots
//
// Between its turns a task writes snapshots of its state to a topic. A start without a state of its
// own, or with one that retention has overtaken, loads the newest and folds what follows in the
// journal ([Core.NeededFrom], docs/decisions/restore.md).
//
// # Errors
//
// Any error of a transaction ends the task. Its supervisor restarts it, and the journal then shows
// whether that transaction was committed. There is one recovery path, and every start takes it.
//
// The tests of package kafka that need a running task are here too.
//
// File map:
//
//	replica.go    a state folded next to its owner, and the last record that it has folded
//	notes.go      a task's notes in its journal: input positions, and start records
//	progress.go   how far a state has advanced in its journal and its inputs
//	core.go       a task as a state machine, without log, clock and goroutine; its stages
//	action.go     the actions that it asks its owner for
//	restore.go    restoring its state from the checkpoint and the journal
//	snapshot.go   the form of a snapshot: chunks and a manifest, written and read
//	snapshots.go  when a core writes one, and what a restore may still need
//	rest.go       for how long none is written after one could not be
//	loading.go    loading the newest that fits the journal
//	task.go       its owner on Kafka
//	input.go      a topic that it reads
//	tasks.go      the tasks of one process, started and stopped as partitions move, and again after
//	              failures
//	standby.go    a copy of another's partition: the restoring half of a core, and its owner
//	standbys.go   those of one process
//	stats.go      statistics of turns and tasks
package task
