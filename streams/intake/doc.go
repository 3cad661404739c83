// Package intake says what counts as a record of a topic that is not the journal,
// and what becomes of one that does not. All who read such a topic ask here, so that
// they agree: what the follower takes for matched is what the engine delivers, and
// what the projector leaves out of a table is what the directory passes over.
//
// A record counts when it can be read, holds nothing out of every range, and is about
// what its key names. A command or a match must also stand in the partition of its
// key, for an aggregate in two partitions has two histories. Whatever else counts not
// is set aside, and its topic goes on: with its place and its beginning in the topic
// "dead-letters", if its reader is the one that is answerable for the topic.
//
// The error of a row or a payment of a newer schema version is [schemas.ErrNewer]. It
// is not set aside, for its reader would miss what it says: a newer program reads it.
//
// File map:
//
//	commands.go    commands and matches, which the engine takes in
//	rows.go        rows of the tables, and payments
//	deadletter.go  what is set aside
package intake
