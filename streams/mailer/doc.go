// Package mailer emails the account holder when an endpoint is disabled, but not
// when a person disabled it: that person knows.
//
// It hides the consumer group that divides the journal among the mailers of a
// deployment, what is remembered of it, the retries, the text, and SMTP.
//
// Invariants:
//
//   - M1 Each EndpointDisabled of the journal is mailed at least once, unless it
//     is settled otherwise (M3, M4). A position is committed to the group after
//     the server's 250, and while the group does not take a position, nothing
//     further is sent. So a mail is doubled by a crash between the two, by a 250
//     that is lost on its way, and when the group gives the partition to another
//     process before it took the position, as it may when a broker is lost; a
//     process that has the partition back knows what it sent last. A doubled mail
//     has the same Message-ID, made of the aggregate's id and the fact's version.
//   - M2 One mail does not hold up another. Up to 256 notices of a partition wait
//     beside each other; what was settled beyond the first that waits stands in
//     the note of the committed position, so that nothing is sent again when a
//     mailer ends. Mails of one partition are sent one after another, each within
//     a minute; the directory is waited for 5 s at most, and asked again later.
//   - M3 A mail that the server refuses for good (5xx to the recipient or to the
//     content), or for three days (4xx), is settled: logged as an error and
//     counted. So is one that holds up a full window, once it was tried ten times
//     and others behind it were sent. Nothing is in the way of others for ever.
//   - M4 An endpoint that was deleted meanwhile, and an account without an address,
//     have nobody to be told: logged and counted.
//   - M5 While the server is down, refuses the sender or our password, or asks for
//     patience (421), everything waits, as long as it takes. A full window reads no
//     further; the journal keeps the rest.
//   - M6 A text of a client reaches no header, and no line of a mail but its own.
//
// A group without a position, a new one or one that the broker forgot (after 7
// days without a member, by default), begins with what is at most a week old:
// older news is of no use.
//
// File map:
//
//	mailer.go   Config, Mailer, Run: a session for each partition that is ours
//	session.go  one partition: reading, trying, committing
//	window.go   what waits and what is settled in a partition; positions
//	notice.go   what a mail says
//	message.go  the mail as bytes
//	smtp.go     the Sender that hands it to a server
//	folder.go   the Sender that writes it to a folder
package mailer
