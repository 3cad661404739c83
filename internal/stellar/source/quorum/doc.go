// Package quorum reads ledgers from several sources as if they were one.
//
// It hides which of them is asked, and what becomes of one that is away, late, forked or lies:
// it is left alone for a while and asked again, and the others go on. With Need 1 the first that
// can give a ledger gives it, in the order of the sources: what Stellar RPC no longer keeps, or
// gives damaged, comes from a lake. With more, all are asked, and a ledger counts when as many
// name the same hash for its number; what is in it comes from one of them that gives the whole of
// it and was held against that hash.
//
// Invariants:
//
//   - A ledger that fewer than Need sources name is never given, and none is skipped: Next
//     waits, and the log says for whom.
//   - Each ledger follows the one before it, whichever source that came from.
//   - A source that names another hash than Need others is found out as soon as it has answered,
//     also when the others were quicker.
//   - At most one request of each source is under way, for at most lookMax; what is kept is a
//     page of each. A source that was left is asked again after at most Config.LeftLast.
//
// File map:
//
//	core.go    Core: which sources to ask and what their answers mean, without goroutine or I/O
//	quorum.go  Source: asks them in goroutines, and waits
//	member.go  one source: what it said, until when it is left alone, and its state
//	verdict.go which ledgers count, and when waiting does not help
package quorum
