// Package readmodel declares the types that are read back from Lumenhook: the filters, positions,
// records and errors of the directory and the history. The parts that answer reads
// (streams/directory, projections/history) and the part that requests them (api) share these types,
// so that no part converts another's. It hides nothing, reads nothing, and imports only the domain.
//
// A list is read from a position on, newest first. A nil position is the beginning of the list, and
// a nil next position is its end. A page may be shorter than the limit and not be the last.
//
// Times are Unix milliseconds; 0 means no time.
//
// File map:
//
//	events.go     events, attempts and deliveries, with the filters and positions of lists
//	statement.go  balance moves of a wallet
//	history.go    facts with their states, rates of attempts, health; errors of the history
package readmodel
