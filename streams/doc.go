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
// takes it over before it reads anything: that aborts the former owner's open
// transaction, and the broker refuses whatever the former owner writes afterwards,
// even if it still believes that it is a member of the group. Nothing depends on input
// offsets being part of the turn (docs/decisions/fencing.md). The owner finds the end of
// the journal by writing a record of its own (docs/decisions/real-kafka.md).
//
// # Snapshots
//
// Between its turns a task writes snapshots of its state to a topic. A start without a state
// of its own, or with one that retention has overtaken, loads the newest and folds what
// follows in the journal ([Core.NeededFrom], docs/decisions/restore.md).
//
// # Errors
//
// Any error of a transaction ends the task; its supervisor restarts it, and the journal
// then shows whether that transaction was committed. There is one recovery
// path, and every start takes it.
//
// File map:
//
//	record.go      records and headers
//	cluster.go     how a cluster is reached
//	clientlog.go   which messages of the Kafka client are logged
//	listening.go   whether a broker answers
//	topics.go      topics that must exist
//	deleter.go     deleting records, and how far readers are
//	ends.go        first offsets and ends of topics
//	leaders.go     leaders of partitions, by all brokers but one
//	transient.go   retries of requests
//	acls.go        ACLs
//	admin.go       settings of topics, features and clock of a cluster
//	sasl.go        how clients authenticate
//	tls.go         how connections are encrypted
//	reader.go      reading partitions, with positions that count control records
//	marks.go       detects reads of aborted records, by the markers of transactions
//	producer.go    appending, acknowledged by all replicas
//	transactor.go  one task's transactions
//	placer.go      a copy of a topic, at the same offsets
//	fenced.go      appending in transactions, by one owner at a time
//	membership.go  group membership, and which partitions it assigns
//	balance.go     who owns and who stands by for which partition: a pure function
//	balancer.go    its messages in the group's protocol
//	asks.go        when a member asks for another balance
//	moment.go      two clocks, and how long a membership counts by them
//	removal.go     members of processes that died
//	replica.go     a state folded beside its owner
//	positions.go   committed positions of a group, for parts without other state
//	deleter.go     deleting records, and how far their readers are
//	hold.go        keeping records from being deleted for a while
//	store.go       state on Pebble and its batches
//	compactions.go when a store's compactions run
//	flushes.go     the end of a process whose state cannot be written
//	bookmark.go    the last record that a state has folded
//	timers.go      the timer index, by group and time
//	notes.go       a task's notes in its journal: input positions, and start records
//	progress.go    how far a state has advanced in its journal and its inputs
//	core.go        a task as a state machine, without log, clock and goroutine; its stages
//	action.go      the actions that it asks its owner for
//	restore.go     restoring its state from the checkpoint and the journal
//	snapshot.go    the form of a snapshot: chunks and a manifest, written and read
//	snapshots.go   when a core writes one, and what a restore may still need
//	rest.go        for how long none is written after one could not be
//	loading.go     loading the newest that fits the journal
//	task.go        its owner on Kafka
//	input.go       a topic that it reads
//	tasks.go       the tasks of one process, started and stopped as partitions move
//	standby.go     a copy of another's partition: the restoring half of a core, and its owner
//	standbys.go    those of one process
//	restarts.go    when a failed task runs again
//	stats.go       statistics of turns and tasks
package streams
