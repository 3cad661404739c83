// Package topicview shows topics to a person: their records, one line of JSON each, and
// how they are kept.
//
// It hides where reading begins and ends, which records are wanted, and how the messages
// of a topic are written as JSON. What this program cannot read is printed as what it is,
// with the reason.
//
// File map:
//
//	reading.go   which records are printed, and from where
//	record.go    a record as JSON
//	describe.go  partitions, offsets and settings
package topicview
