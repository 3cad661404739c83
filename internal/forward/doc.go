// Package forward posts events that were pulled to a receiver on this machine, as the service
// would post them: it is `lumenhook listen`.
//
// It hides what is waited for (a receiver that is being started), what is not (an answer that
// refuses an event is shown, and the next one follows), and how deliveries are made to fail on
// purpose.
//
// File map:
//
//	forwarder.go  events posted, one after another
//	fault.go      failures on purpose
//	sample.go     events that are made up, and signatures
//	report.go     what is said of each
package forward
