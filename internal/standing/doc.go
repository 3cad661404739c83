// Package standing is how sources of ledgers stand: which agree, and which are left out, for what
// reason, since which ledger and when.
//
// It hides the form in which a process tells operators of it (JSON, at /ledger-sources), and when
// that is a fault: what follows, answers and asks share it, and know nothing of each other.
package standing
