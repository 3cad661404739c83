// Package draw is what the simulator and the trial share: payments and the rules of watches, drawn
// from a seed; the events that the specification says they make; and the search for a short run
// that still fails. It imports nothing of the product, so that it shares no mistake with it.
//
// File map:
//
//	draw.go    what is drawn
//	rules.go   which event a payment makes
//	shrink.go  leaves out what a failure does not need
package draw
