// Package draw is shared by the simulator and the trial: payments and the rules of watches, drawn
// from a seed; the events that the specification requires for them; and the search for a shorter
// run that still fails. It imports nothing of the product, so that it shares no bug with it.
//
// File map:
//
//	draw.go    drawing payments and rules
//	rules.go   which event a payment makes
//	shrink.go  removes steps that a failure does not need
package draw
