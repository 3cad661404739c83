// Package task runs the stateful consumers: each task owns one partition number, and its [Handler]
// makes the decisions. It knows logs, transactions, state and time, but nothing about webhooks, and
// does not import package domain.
//
// It hides how turns, recovery, snapshots and standbys work. The packages above see a [Task] with
// its [Core], and the handler that they pass to it.
//
// # One turn of a task
//
// A task takes a bounded batch of inputs, lets its handler make decisions, and then, in this order:
//
//  1. writes facts, rows, results and input positions in ONE Kafka transaction;
//  2. writes the folded state and the journal checkpoint in ONE Pebble batch;
//  3. starts the effects that the handler returns.
//
// If the process crashes before step 1 completes, the inputs are repeated, and deduplicated by id.
// If it crashes between 1 and 2, the journal is folded again from the checkpoint. If it crashes
// after 2, the effects start again, because what is due is part of the state.
//
// The owner of a partition finds the end of the journal by writing a record of its own
// (docs/decisions/real-kafka.md).
//
// # Snapshots
//
// Between its turns, a task writes snapshots of its state to a topic. A task without state, or with
// one that retention has overtaken, starts from the newest snapshot and folds the rest of the
// journal ([Core.NeededFrom], docs/decisions/restore.md).
//
// # Errors
//
// Any transaction error stops the task. Its supervisor restarts it, and the journal then shows
// whether the transaction was committed. There is one recovery path, and every start takes it.
//
// The tests of package kafka that need a running task are here.
//
// File map:
//
//	replica.go    a state folded next to its owner, and its last folded record
//	notes.go      a task's notes in its journal: input positions, and start records
//	progress.go   how far a state has advanced in its journal and its inputs
//	core.go       a task as a state machine, without log, clock and goroutines; its stages
//	action.go     the actions that a core asks its owner for
//	restore.go    restoring a state from the checkpoint and the journal
//	snapshot.go   the format of a snapshot: chunks and a manifest, written and read
//	snapshots.go  when a core writes one, and what a restore may still need
//	rest.go       how long snapshots pause after a failure
//	loading.go    loading the newest snapshot that fits the journal
//	task.go       a core's owner on Kafka
//	input.go      a topic that a task reads
//	tasks.go      the tasks of one process, started and stopped as partitions move, and restarted
//	              after failures
//	standby.go    a copy of another owner's partition: the restoring half of a core, and its owner
//	standbys.go   the standbys of one process
//	stats.go      statistics of turns and tasks
package task
