// Package readmodel declares the types that reads of the directory and the history return: filters,
// positions, records and errors. The packages that serve reads (streams/directory,
// projections/history) and the one that requests them (api) share these types, so none of them has
// to convert. The package contains no logic and imports only the domain.
//
// Lists are read from a position on, newest first. A nil position is the beginning of the list, and
// a nil next position is its end. A page may be shorter than the limit without being the last one.
//
// Times are Unix milliseconds. 0 means no time.
//
// File map:
//
//	events.go     events, attempts and deliveries, with the filters and positions of lists
//	statement.go  balance moves of a wallet
//	history.go    facts with their states, rates of attempts, health; errors of the history
package readmodel
