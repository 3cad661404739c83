// Package devtraffic makes transactions of every kind that the development network knows, one
// after the other, for tests and demonstrations of what follows a ledger.
//
// It hides how each kind is built. What a step sends depends on its number alone, so that a
// chain of any length holds every kind of operation, memo and destination, fee bumps, and
// transactions that fail.
package devtraffic
