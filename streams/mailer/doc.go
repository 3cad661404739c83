// Package mailer emails the account holder when an endpoint is disabled, unless a user disabled it.
//
// The engine decides when to send and repeat which mail (docs/state-machines.md, Notice), and
// writes an order for each to the topic "mails". A mailer carries out orders and answers them in
// the topic "commands". It hides the consumer group that divides the orders among a deployment's
// mailers, the text, and SMTP.
//
// Invariants:
//
//   - M1 The answer to an order is in the log before the group's position moves past the order. So
//     a mail is sent twice only if the process crashes between the server's 250 and the commit of
//     that position, if the 250 is lost, or if the group gives the partition to another process in
//     between, for example because a broker is lost. A process that gets the partition back still
//     knows its answers. A repeated mail has the same Message-ID, derived from the endpoint's id
//     and the fact's version.
//   - M2 One mail does not delay another. A process has up to 256 orders in progress and sends 8
//     mails at a time, each within a minute. It waits for the directory for at most 5 s.
//   - M3 The answer distinguishes why a mail was not accepted: because of the mail, permanently
//     (5xx to the recipient or the content) or temporarily (4xx); or for another reason, while the
//     server is down, rejects the sender or our password, or asks us to wait (421). An account
//     without an address has its own answer.
//   - M4 An expired order is not carried out, because the engine has written another, or will.
//     Notices that wait for a mail server wait in the engine, which bounds the open orders.
//   - M5 An order that cannot be read becomes a dead letter, and the next orders are carried out.
//   - M6 A client's text cannot get into a header, or into another line of a mail.
//
// File map:
//
//	mailer.go   Config, Mailer, Run: the group, and one round after another
//	round.go    the assigned partitions: reading orders, committing positions
//	order.go    one order: the account, the sending, the answer
//	notice.go   the text of a mail, and the mail as bytes
//	smtp.go     a Sender that sends mails to a server
//	folder.go   a Sender that writes mails to a folder
package mailer
