// Package forward helps developers of a receiver: it posts events that were pulled to a
// receiver on this machine, as the service would post them (`lumenhook listen`), and receives
// webhooks itself (`lumenhook devnet receiver`, `lumenhook devnet load`).
//
// It hides what it waits for (a receiver that is starting) and what it does not wait for (a
// rejected event is reported, and the next one follows), and how deliveries fail on purpose.
//
// File map:
//
//	forwarder.go  posting events in order, reporting each, and failures on purpose
//	sample.go     synthetic events, and signatures
//	receiver.go   a receiver that prints webhooks, also as lines of JSON
//	load.go       traffic on the development network, with a receiver that refuses some of it
package forward
