// Package quorum reads ledgers from several sources as if they were one.
//
// It hides which of them is queried, and how it handles one that is unavailable, late, forked or
// wrong: it is skipped for a while and queried again, and the others continue. With Need 1 the
// first source that has a ledger returns it, in the order of the sources: ledgers that Stellar RPC
// no longer has, or returns damaged, come from a lake. With a larger Need, all are queried, and a
// ledger counts if that many sources report the same hash for its number. Its content comes from
// one of them that returns the whole ledger and was checked against that hash.
//
// Invariants:
//
//   - A ledger that fewer than Need sources report is never returned, and none is skipped: Next
//     waits, and the log says for which source.
//   - Each ledger follows the previous one, whichever source that came from.
//   - A source that reports another hash than Need others is detected as soon as it has answered,
//     even if the others were quicker.
//   - At most one request per source is in flight, for at most lookMax; one page per source is
//     stored. A source that was left is queried again after at most Config.LeftLast.
//
// File map:
//
//	core.go    Core: which sources to query and what their answers mean, without goroutine or I/O
//	quorum.go  Source: queries them in goroutines, and waits
//	member.go  one source: its answers, until when it is skipped, and its state
//	verdict.go which ledgers count, and when waiting does not help
package quorum
