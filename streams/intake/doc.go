// Package intake decides which records of topics other than the journal are valid, and what
// happens to the others. All readers of such a topic use it, so that they agree: what the
// follower considers matched is what the engine delivers, and what the projector leaves out
// of a table is what the directory skips.
//
// A record is valid when it can be decoded, its values are in range, and it is about what
// its key names. A command or a match must also be in the partition of its key, for an
// aggregate in two partitions would have two histories. An invalid record is set aside and
// its topic is read on: the one reader that is responsible for the topic writes its
// position and its first bytes to the topic "dead-letters".
//
// The error of a row or a payment of a newer schema version is [schemas.ErrNewer]. It is
// not set aside, for its reader would miss its content: a newer program reads it.
//
// File map:
//
//	commands.go    commands and matches, which the engine takes in; orders of mails
//	rows.go        rows of the tables, payments, and what is set aside
package intake
