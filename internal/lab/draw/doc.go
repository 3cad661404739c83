// Package draw contains what the simulator and the trial share: payments and watch rules drawn from
// a seed, the events that the specification requires for them, and the search for a shorter run
// that still fails. It imports nothing of the product, so that it cannot share its bugs.
//
// File map:
//
//	draw.go    drawing payments and rules
//	rules.go   which event a payment creates
//	shrink.go  removing steps that a failure doesn't need
package draw
