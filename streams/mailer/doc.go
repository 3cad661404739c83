// Package mailer emails the account holder when an endpoint is disabled, but not
// when a person disabled it: that person knows.
//
// The engine decides which mail is sent when, and again when (docs/state-machines.md,
// Notice); it orders each in the topic "mails". A mailer carries orders out and answers
// each in the topic "commands". It hides the consumer group that divides the orders
// among the mailers of a deployment, the text, and SMTP.
//
// Invariants:
//
//   - M1 An order's answer stands in the log before the group's position moves behind
//     the order. So a mail is doubled only by a crash between the server's 250 and the
//     commit of that position, by a 250 that is lost on its way, and when the group gives
//     the partition to another process in between, as it may when a broker is lost; a
//     process that has the partition back knows what it answered. A doubled mail has
//     the same Message-ID, made of the endpoint's id and the fact's version.
//   - M2 One mail does not hold up another. Up to 256 orders of a process are under way,
//     8 of them being sent, each within a minute; the directory is waited for 5 s at
//     most.
//   - M3 The answer says whose fault it is that a mail was not taken: this mail's, for
//     good (5xx to the recipient or to the content) or for now (4xx), or nobody's in
//     particular, while the server is down, refuses the sender or our password, or asks
//     for patience (421). An account without an address has an answer of its own.
//   - M4 An order is not carried out when its time is over: the engine has given
//     another, or will. What waits for a mail server waits with the engine, which has a
//     bounded number of orders out.
//   - M5 An order that cannot be read is set aside as a dead letter, and those behind it
//     are carried out.
//   - M6 A text of a client reaches no header, and no line of a mail but its own.
//
// File map:
//
//	mailer.go   Config, Mailer, Run: the group, and one round after another
//	round.go    the partitions that are ours: reading orders, committing positions
//	order.go    one order: the account, the sending, the answer
//	notice.go   what a mail says, and the mail as bytes
//	smtp.go     the Sender that hands it to a server
//	folder.go   the Sender that writes it to a folder
package mailer
