// Package engine is the stateful consumer: it alone turns commands and matches
// into facts. It drives the state machines of package domain on the runtime of
// package task, one task for each partition.
//
// It hides how aggregates are stored and folded, how inputs are deduplicated, and which
// deliveries may be attempted now.
//
// Invariants, by the guarantees of docs/architecture.md:
//
//   - G2: a partition holds one delivery of an event: the first match wins, and a
//     hand-over follows a delivery that was cancelled, with more moves than it had.
//   - G3: a delivery that is pending has one entry in the timer index, under its
//     endpoint, at the time of its next attempt; one that is not has none. While it stands
//     behind another in its line, its entry is in a group of which nothing is claimed.
//   - A notice that is not settled has one entry there too, at the time of its next
//     order. Its order is part of the transaction that records it. While mailers answer
//     that they have no server, one notice of a partition is ordered at a time.
//   - A delivery that is DELIVERED or CANCELLED has no body, and is forgotten when so many
//     others have settled after it (settled.go). One that is pending or FAILED never is.
//   - G4: every key of the store is a function of the journal. The answers to commands
//     are forgotten after [rememberCommands], which no reader notices before 24 hours have
//     passed. Only how far the rows of a rebuilt state are published is the store's own.
//   - A fact's version is its aggregate's next one. The journal's offsets say what is
//     folded already; a repeated version, or a gap, comes from a turn that was not
//     committed and ends the task.
//   - An input record that cannot be read, or that nothing may be decided on, becomes a
//     dead letter in the same turn, and the partition continues. A journal record that
//     cannot be read ends the task: there it is corruption.
//
// Keys of the store, by their first byte:
//
//	0x10 account id   account        0x14 event id    its body, see carried.go
//	0x11 endpoint id  endpoint       0x15 command id  its answer
//	0x12 watch id     watch          0x16 endpoint id, created, event id
//	0x13 event id     delivery            a delivery that a replay may queue
//	0x17              behind which key rows are still to be published
//	0x18 endpoint id / version of the disabling     a notice that is not settled
//	0x19 number            a delivery that settled: version, moves, event id
//	0x1a              numbers of the first and of the next of these
//	0x1b partition    the highest number of a hand-over that came from there
//	0x1c endpoint id, wallet            a line: see lines.go
//	0x1d endpoint id, wallet, sequence  a delivery that stands behind another in its line
//
// Groups of the timer index: an endpoint's identifier with its epoch holds the deliveries
// that wait for an attempt since that epoch, and until the first one also their bodies;
// "commands" holds answers until they are
// forgotten, "mails" the notices that are to be ordered, "orders" those whose order may
// get no answer. Enabling an endpoint begins an epoch, and makes the group of the previous one
// due by a single write. So does deleting it; its deliveries are then cancelled as they are
// claimed, a bounded number in each turn. An endpoint's identifier with "behind" holds those
// that stand behind another in their line: they go over to the group of the epoch when their
// turn comes.
//
// File map:
//
//	engine.go    membership, tasks, configuration
//	formats.go   the number of the state's format, and how earlier ones are read
//	owner.go     which aggregate an entry of a state belongs to
//	machine.go   the turn: inputs to facts
//	commands.go  commands to facts and answers; records that do not count (package intake)
//	state.go     aggregates in the store, and the fold
//	known.go     which deliveries there are, without a look into the store
//	carried.go   where an event's body is
//	answers.go   answers to commands, and when they are forgotten
//	lines.go     deliveries of a wallet that are made one after another
//	settled.go   which settled deliveries are remembered
//	handovers.go events that go on in another partition, and arrive once
//	scheduler.go what is due becomes attempts
//	inflight.go  the attempts in flight, in all and by endpoint
//	notices.go   mails about disabled endpoints: orders and answers
//	secrets.go   what signs them
//	flights.go   what a committed turn has its process do, and what comes back; attempts outlive
//	             their task
//	window.go    how many attempts an endpoint may have in flight
//	starts.go    how many an endpoint may get in a second
//	waiting.go   endpoints that wait for a place, or for their rate limit
package engine
