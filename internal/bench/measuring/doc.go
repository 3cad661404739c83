// Package measuring is what the benchmark programs share: processes that are measured, what
// they use and what the machine does meanwhile, figures, and the payments that are delivered.
//
// It hides /proc and how children report.
//
// Invariant: a figure is shown with its smallest, middle and largest value, and with what the
// machine did meanwhile.
//
// File map:
//
//	figures.go  values of repeated measurements, the machine and its load
//	process.go  child processes, what they report
//	usage.go    what processes use, by /proc
//	payments.go the matches that are delivered
package measuring
