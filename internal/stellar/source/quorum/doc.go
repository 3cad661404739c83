// Package quorum reads ledgers from several sources as if they were one.
//
// It decides which sources to query. A source that is unavailable, late, forked or wrong is
// excluded for a while and then queried again, while the others are used. With a Need of 1, the
// first source that has a ledger returns it. For example, a lake can provide ledgers that the
// Stellar RPC no longer has, or returns damaged. With a larger Need, all sources are queried, and a
// ledger is accepted once that many sources report the same hash for it. Its content has been
// checked against that hash.
//
// Invariants:
//
//   - A ledger that fewer than Need sources report is never returned, and no ledger is skipped.
//     Next waits and logs which sources it is waiting for.
//   - Each ledger follows the previous one, regardless of the sources that they came from.
//   - A source that reports a different hash than Need others is detected when its response
//     arrives, even if the others were faster.
//   - Each source has at most one request in flight, for at most lookMax, and at most one page is
//     stored per source. An excluded source is queried again after at most Config.LeftLast.
//
// File map:
//
//	core.go    Core: decides which sources to query and processes their responses, without I/O
//	quorum.go  Source: queries the sources in goroutines and waits for them
//	member.go  a source: its responses, its state and how long it is excluded
//	verdict.go which ledgers are accepted, and when waiting does not help
package quorum
