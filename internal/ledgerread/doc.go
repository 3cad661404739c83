// Package ledgerread reads ledgers for a person: it prints the payments in files of them,
// and reads ledgers again that were followed, to hold the payments in them against those
// that were observed.
//
// It hides what of the topics counts, and what is a difference: a payment that would now
// be seen, that no longer is, or of which an event would show something else. It changes
// nothing.
//
// File map:
//
//	payments.go  the payments in files
//	check.go     ledgers read again
package ledgerread
