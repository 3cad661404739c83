// Package receiver takes webhooks of Lumenhook: it checks each, records it once, answers, and
// hands it to your code afterwards.
//
//	verify.go    the signature: Verify
//	secrets.go   the endpoint's secrets, which a rotation changes: Secrets
//	event.go     the payloads, typed: Event, PaymentData, PingData, FailingData, DisabledData
//	inbox.go     the table of events that were received: Inbox
//	receiver.go  the HTTP handler: Receiver
//
// What it guarantees to the code that handles an event:
//
//  1. Its body was signed with a secret of yours within the last five minutes, byte for byte.
//  2. It is in the database before the service is told 200: no event is lost by a crash.
//  3. What the code writes through the transaction that it is given is written once for each
//     event, however often the event arrives and wherever the process is killed. What it does
//     elsewhere (a mail, a call) may be done again, and has to be told apart by the event's id.
package receiver
