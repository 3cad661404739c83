// Package streams is the runtime under the stateful parts of Lumenhook. It
// knows logs, transactions, state and time; it knows nothing of webhooks and
// does not import package domain.
//
// It hides the Kafka client and Pebble: the parts above see [Record], [Reader],
// [Producer], [Task] with its [Core], [Batch] and [TimerIndex].
//
// # One turn of a task
//
// A task owns one partition number. It takes a bounded batch of inputs, lets its
// [Handler] decide, and then, in this order:
//
//  1. writes facts, rows, results and input positions in ONE Kafka transaction;
//  2. writes the folded state and the journal checkpoint in ONE Pebble batch;
//  3. starts the effects that the handler returns.
//
// A crash before 1 ends repeats the inputs: they are deduplicated by identifier.
// A crash between 1 and 2 refolds the journal from the checkpoint. A crash
// after 2 starts the effects again, because what is due is part of the state.
//
// # Fencing
//
// Each task has a transactional id of its own, <group>-<partition>. A new owner
// takes it over before it reads anything: that aborts what the former owner had
// open, and whatever the former owner writes afterwards is refused by the
// broker, whether or not it still believes itself in the group. Nothing depends
// on input offsets being part of the turn (docs/decisions/fencing.md). Where the
// journal ends, the owner learns from a record of its own
// (docs/decisions/real-kafka.md).
//
// Any error of a transaction ends the task; its supervisor starts it anew, and
// the journal then says whether that transaction stood. There is one recovery
// path, and every start takes it.
//
// File map:
//
//	record.go      records and headers
//	cluster.go     how a cluster is reached
//	topics.go      topics that must exist
//	ends.go        where topics begin and end
//	leaders.go     who leads partitions, by all brokers but one
//	transient.go   asking again
//	acls.go        who may do what
//	admin.go       what topics are like, features and clock of a cluster
//	sasl.go        how clients prove who they are
//	tls.go         how connections are encrypted
//	reader.go      reading partitions, with positions that count control records
//	marks.go       what was read, held against the markers of transactions
//	producer.go    appending, acknowledged by all replicas
//	transactor.go  one task's transactions
//	placer.go      a copy of a topic, at the same offsets
//	fenced.go      appending in transactions, by one owner at a time
//	membership.go  which partitions are ours
//	moment.go      two clocks, and how long a membership counts by them
//	removal.go     members of processes that died
//	positions.go   how far a group came, for a part that has no other state
//	store.go       state on Pebble and its transactions
//	bookmark.go    the last fact that a state has folded
//	timers.go      what is due, by group and time
//	inputs.go      how far a task came in its inputs, in its state and journal
//	core.go        a task as a state machine, without log, clock and goroutine
//	action.go      what it asks its owner to do
//	restore.go     its way through the journal, from the checkpoint
//	task.go        its owner on Kafka
//	tasks.go       the tasks of one process, started and stopped as partitions move
//	restarts.go    when one that failed runs again
//	stats.go       what turns and tasks say of themselves
package streams
