// Package sha256x2 hashes many messages with SHA-256, two at a time.
//
// It hides that a processor's SHA unit is half idle with one message: each step waits for the one
// before it. The steps of two messages, taken in turns, fill it, and two take the time of one. The
// standard library hashes one at a time. Where there is no such unit, or Go's FIPS 140-3 mode is
// on, so does this package, with the standard library.
//
// Invariants:
//
//   - A hash is that of crypto/sha256, whatever the processor.
//   - A message is read only between the call that gives it and the one that takes its hash.
//
// File map:
//
//	sums.go         many messages, by whichever means there is
//	lane.go         one of the two messages that are under way
//	pair_amd64.go   whether this processor can
//	pair_amd64.s    blocks of two messages in turns
//	pair_other.go   the processors of which it is not known
package sha256x2
