// Package intake decides which records of topics other than the journal are valid, and what happens
// to the others. All readers of such a topic use it, so that they agree: the engine delivers
// exactly what the follower considers matched, and the directory skips exactly the rows that the
// projector omits from a table.
//
// A record is valid if it can be decoded, its values are in range, and its key matches its content.
// A command or a match must also be in the partition of its key, because an aggregate in two
// partitions would have two histories. An invalid record is set aside, and reading continues: the
// reader that is responsible for the topic writes the record's position and first bytes to the
// topic "dead-letters".
//
// A row or a payment of a newer schema version returns [schemas.ErrNewer]. It is not set aside,
// because its content would be missed; a newer program will read it.
//
// File map:
//
//	commands.go    commands, matches and mail orders
//	rows.go        rows of the tables, payments, and dead letters
package intake
