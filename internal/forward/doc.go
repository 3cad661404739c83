// Package forward helps developers of a receiver: it posts events that were pulled to a
// receiver on this machine, as the service would post them (`lumenhook listen`), records
// deliveries for a receiver's own tests (`lumenhook fixtures`), and receives webhooks itself
// (`lumenhook devnet receiver`, `lumenhook devnet load`).
//
// It hides what it waits for (a receiver that is starting) and what it does not wait for (a
// rejected event is reported, and the next one follows), how deliveries fail on purpose, how it
// finds the bytes of a body, and which parts of a body it redacts.
//
// Invariants of fixtures:
//
//   - A file contains the body byte for byte as it was delivered, unless it was redacted.
//   - No file contains an endpoint's secret or a signature made with it. Each delivery is signed
//     again with [Secret], which is public, for the time when its event was created.
//   - An event always produces the same file.
//
// File map:
//
//	forwarder.go  posting events in order, reporting each, and failures on purpose
//	sample.go     synthetic events, and signatures
//	fixture.go    fixtures: recording, redacting, reading, checking, signing
//	receiver.go   a receiver that prints webhooks, also as lines of JSON
//	load.go       traffic on the development network, with a receiver that refuses some of it
//	schema.json   the form of a fixture as a JSON Schema
package forward
