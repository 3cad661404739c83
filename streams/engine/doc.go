// Package engine is the stateful consumer: only it turns commands and matches into facts. It drives
// the state machines of package domain on the runtime of package task, one task per partition.
//
// It hides how aggregates are stored and folded, how inputs are deduplicated, and which deliveries
// may be attempted now.
//
// Invariants, by the guarantees of docs/architecture.md:
//
//   - G2: a partition has one delivery per event. The first match wins. A handover replaces a
//     cancelled delivery if it has more moves.
//   - G3: a pending delivery has one timer entry, under its endpoint, at the time of its next
//     attempt. Other deliveries have none. While a delivery is behind another in its line, its
//     entry is in a group that is never claimed.
//   - An unsettled notice also has one timer entry, at the time of its next order. The order is
//     part of the transaction that records it. While mailers report that they have no server, a
//     partition orders one notice at a time.
//   - A DELIVERED or CANCELLED delivery has no body. It is forgotten when a fixed number of others
//     have settled after it (settled.go). Pending and FAILED deliveries are never forgotten.
//   - G4: every key of the store is a function of the journal. Answers to commands are deleted
//     after [rememberCommands], which no reader can notice within 24 hours. The only other key is
//     the publishing progress of a rebuilt state's rows.
//   - Each fact has its aggregate's next version. The journal's offsets tell which facts are
//     folded. A repeated version or a gap comes from an uncommitted turn, and stops the task.
//   - An input record that cannot be read, or that must not be decided on, becomes a dead letter in
//     the same turn, and the partition continues. A journal record that cannot be read stops the
//     task, because it means corruption.
//
// Keys of the store, by their first byte:
//
//	0x10 account id   account        0x14 event id    its body, see carried.go
//	0x11 endpoint id  endpoint       0x15 command id  its answer
//	0x12 watch id     watch          0x16 endpoint id, created, event id
//	0x13 event id     delivery            a delivery that a replay may queue
//	0x17              the key after which rows are still to be published
//	0x18 endpoint id / version of the disabling     an unsettled notice
//	0x19 number            a settled delivery: version, moves, event id
//	0x1a              the oldest and the next of these numbers
//	0x1b partition    the highest handover number from that partition
//	0x1c endpoint id, wallet            a line: see lines.go
//	0x1d endpoint id, wallet, sequence  a delivery behind another in its line
//
// Groups of the timer index: an endpoint's id with its epoch contains the deliveries that have
// waited since that epoch, and their bodies until the first attempt. An endpoint's id with "behind"
// contains the deliveries behind another in their line, which move to the epoch's group when their
// turn comes. "commands" contains answers until they expire, "mails" the notices to be ordered, and
// "orders" the ordered notices whose answer may not arrive.
//
// Enabling or deleting an endpoint starts an epoch, and makes the previous epoch's group due with a
// single write. The deliveries of a deleted endpoint are cancelled as they are claimed, a bounded
// number per turn.
//
// File map:
//
//	engine.go    membership, tasks, configuration
//	formats.go   the state's format number, and how earlier formats are read
//	owner.go     which aggregate an entry of a state belongs to
//	machine.go   the turn: inputs to facts
//	commands.go  commands to facts and answers; dead letters (package intake)
//	state.go     aggregates in the store, and the fold
//	carried.go   where an event's body is stored
//	answers.go   answers to commands, and when they expire
//	lines.go     deliveries of a wallet that are sent in order
//	settled.go   which settled deliveries are remembered
//	handovers.go events that move to another partition, and arrive once
//	scheduler.go due timers become attempts
//	inflight.go  the attempts in flight, in total and by endpoint
//	notices.go   mails about disabled endpoints: orders and answers
//	secrets.go   secrets and keys that sign attempts
//	flights.go   effects of a committed turn, and their outcomes; attempts outlive their task
//	window.go    how many attempts an endpoint may have in flight
//	starts.go    rate limits of endpoints
//	waiting.go   endpoints that wait for a place, or for their rate limit
package engine
