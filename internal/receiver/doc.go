// Package receiver is the demo receiver, an HTTPS server that handles webhooks exactly as the
// specification requires ("Verification by the receiver", "Receiver handling rule"). It lets new
// users see a webhook that was actually verified.
//
// It handles each webhook in this order: read the raw body, verify its signature, look up its
// Webhook-Id, record it, respond 200, and then pass it to the callback.
//
// Invariants:
//
//   - R1 A body is not parsed before its signature has been verified.
//   - R2 A Webhook-Id is only recorded after verification, so that a forged webhook can't hide a
//     real one.
//   - R3 Memory is bounded: bodies (1 MiB), headers (32 KiB), recorded IDs (100,000, evicting the
//     least recently seen) and webhooks waiting for the callback (1,024; if the queue is full,
//     responses wait).
//
// File map: receiver.go (everything).
package receiver
