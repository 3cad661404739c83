// Package topicview prints topics for people: their records, one line of JSON each, and
// their settings.
//
// It hides where reading begins and ends, how records are selected, and how the messages of
// a topic are written as JSON. What this program cannot decode is printed raw, with the
// reason.
//
// File map:
//
//	reading.go   which records are printed, and from where
//	record.go    a record as JSON
//	describe.go  partitions, offsets and settings
package topicview
