// Package ledgercheck reads ledgers again and holds the payments in them against those
// that were observed when the ledgers were followed.
//
// It hides what of the topics counts, and what is a difference: a payment that would now
// be seen, that no longer is, or of which an event would show something else. It changes
// nothing.
package ledgercheck
