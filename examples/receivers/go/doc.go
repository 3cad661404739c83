// Package receiver receives Lumenhook's webhooks. It verifies each webhook, records it once,
// responds, and then passes it to your code.
//
//	verify.go    the signature: Verify
//	secrets.go   the endpoint's secrets, which a rotation changes: Secrets
//	event.go     the typed payloads: Event, PaymentData, PingData, FailingData, DisabledData
//	inbox.go     the table of received events: Inbox
//	receiver.go  the HTTP handler: Receiver
//
// For code that handles events, it guarantees:
//
//  1. The body was signed with one of your secrets within the last five minutes, byte for byte.
//  2. The event is in the database before the service receives a 200, so a crash loses no event.
//  3. Whatever the code writes through its transaction is written once per event, however often
//     the event arrives and wherever the process is killed. Other effects (an email, a call) may
//     be repeated. Use the event's id to make them idempotent.
package receiver
