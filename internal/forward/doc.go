// Package forward helps developers of a receiver: it posts events that were pulled to a
// receiver on this machine, as the service would post them (`lumenhook listen`), records
// deliveries for a receiver's own tests (`lumenhook fixtures`), and receives webhooks itself
// (`lumenhook devnet receiver`, `lumenhook devnet load`).
//
// It hides what is waited for (a receiver that is being started), what is not (an answer that
// refuses an event is shown, and the next one follows), and how deliveries are made to fail on
// purpose; how the bytes of a body are found again, and what of them may be nobody's business.
//
// Invariants of fixtures:
//
//   - A file holds the body byte for byte as it was delivered, unless it was redacted.
//   - No file has the secret of an endpoint, or a signature made with it: each is signed again with
//     [Secret], which is published, and for the time at which its event was created.
//   - The same event is the same file, whenever it is recorded.
//
// File map:
//
//	forwarder.go  events posted, one after another, and the report on each; failures on purpose
//	sample.go     synthetic events, and signatures
//	fixture.go    fixtures: recording, redacting, reading, checking, signing
//	receiver.go   a receiver that prints webhooks, also as lines of JSON
//	load.go       traffic on the development network, with a receiver that refuses some of it
//	schema.json   the form of a fixture as a JSON Schema
package forward
