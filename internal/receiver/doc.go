// Package receiver is the demo receiver: an HTTPS server that treats webhooks
// exactly as the specification tells receivers to ("Verification by the
// receiver", "Receiver handling rule"), so that a first run shows a webhook
// that was truly verified.
//
// It hides the order of the steps: the raw body is read, the signature verified
// over it, the Webhook-Id looked up among those already seen, the webhook
// recorded, 200 answered, and only then the webhook handed on.
//
// Invariants:
//
//   - R1 Nothing of a body is parsed before its signature is verified.
//   - R2 A Webhook-Id is remembered only when its webhook was verified, so that
//     a forgery cannot hide a real one.
//   - R3 Everything is bounded: bodies (1 MiB), headers (32 KiB), remembered ids
//     (100,000, the longest unseen forgotten first) and webhooks waiting to be
//     handed on (1,024; when they are full, answers wait).
//
// File map: receiver.go (everything).
package receiver
