// Package engine is the stateful consumer: only it turns commands and matches into facts. It drives
// the state machines of package domain on the runtime of package task, one task for each partition.
//
// It hides how aggregates are stored and folded, how inputs are deduplicated, and which deliveries
// may be attempted now.
//
// Invariants, by the guarantees of docs/architecture.md:
//
//   - G2: a partition holds one delivery of an event. The first match wins. A handover replaces a
//     delivery that was cancelled, if it has more moves.
//   - G3: a pending delivery has one entry in the timer index, under its endpoint, at the time of
//     its next attempt. Other deliveries have no entry. While a delivery is behind another in its
//     line, its entry is in a group that is never claimed.
//   - A notice that is not settled has one entry there too, at the time of its next order. Its
//     order is part of the transaction that records it. While mailers answer that they have no
//     server, a partition orders one notice at a time.
//   - A delivery that is DELIVERED or CANCELLED has no body, and is forgotten when a fixed number
//     of others have settled after it (settled.go). A delivery that is pending or FAILED is never
//     forgotten.
//   - G4: every key of the store is a function of the journal. Answers to commands are deleted
//     after [rememberCommands], which no reader can notice within 24 hours. The only key outside
//     the journal is how far the rows of a rebuilt state are published.
//   - A fact's version is its aggregate's next one. The journal's offsets say which facts are
//     folded. A repeated version or a gap comes from a turn that was not committed, and ends the
//     task.
//   - An input record that cannot be read, or that must not be decided on, becomes a dead letter
//     in the same turn, and the partition continues. A journal record that cannot be read ends the
//     task, because it means corruption.
//
// Keys of the store, by their first byte:
//
//	0x10 account id   account        0x14 event id    its body, see carried.go
//	0x11 endpoint id  endpoint       0x15 command id  its answer
//	0x12 watch id     watch          0x16 endpoint id, created, event id
//	0x13 event id     delivery            a delivery that a replay may queue
//	0x17              the key after which rows are still to be published
//	0x18 endpoint id / version of the disabling     a notice that is not settled
//	0x19 number            a settled delivery: version, moves, event id
//	0x1a              numbers of the first and of the next of these
//	0x1b partition    the highest number of a handover from that partition
//	0x1c endpoint id, wallet            a line: see lines.go
//	0x1d endpoint id, wallet, sequence  a delivery behind another in its line
//
// Groups of the timer index: an endpoint's id with its epoch holds the deliveries that have waited
// for an attempt since that epoch, and their bodies until the first attempt. "commands" holds
// answers until they expire, "mails" the notices to be ordered, and "orders" the notices whose
// order may get no answer. Enabling an endpoint starts an epoch, and makes the group of the
// previous epoch due with a single write. So does deleting it; its deliveries are then cancelled as
// they are claimed, a bounded number in each turn. An endpoint's id with "behind" holds the
// deliveries behind another in their line. They move to the group of the epoch when their turn
// comes.
//
// File map:
//
//	engine.go    membership, tasks, configuration
//	formats.go   the number of the state's format, and how earlier ones are read
//	owner.go     which aggregate an entry of a state belongs to
//	machine.go   the turn: inputs to facts
//	commands.go  commands to facts and answers; records that do not count (package intake)
//	state.go     aggregates in the store, and the fold
//	carried.go   where an event's body is stored
//	answers.go   answers to commands, and when they expire
//	lines.go     deliveries of a wallet that are made one after another
//	settled.go   which settled deliveries are remembered
//	handovers.go events that continue in another partition, and arrive once
//	scheduler.go due timers become attempts
//	inflight.go  the attempts in flight, in total and by endpoint
//	notices.go   mails about disabled endpoints: orders and answers
//	secrets.go   secrets and keys that sign attempts
//	flights.go   effects of a committed turn, and their outcomes; attempts outlive their task
//	window.go    how many attempts an endpoint may have in flight
//	starts.go    how many attempts an endpoint may get in a second
//	waiting.go   endpoints that wait for a place, or for their rate limit
package engine
