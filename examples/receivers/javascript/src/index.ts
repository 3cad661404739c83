/**
 * Receives Lumenhook's webhooks: verifies each one, records it once, responds, and then passes it
 * to your code.
 *
 *     secrets.ts    the endpoint's secrets, which a rotation changes: secretsFromFile
 *     signature.ts  the signature: verify
 *     events.ts     the typed payloads: LumenhookEvent, PaymentData, PingData and others
 *     inbox.ts      the table of received events: Inbox
 *     receiver.ts   the handler for any framework: Receiver
 *
 * For code that handles events, it guarantees:
 *
 * 1. The body was signed with one of your secrets within the last five minutes, byte for byte.
 * 2. The event is in the database before the service receives a 200, so a crash loses no event.
 * 3. Whatever the code writes through its database is written once per event, however often the
 *    event arrives and wherever the process is killed. Other effects (an email, a call) may be
 *    repeated. Use the event's id to make them idempotent.
 */
export * from "./events.js";
export * from "./inbox.js";
export * from "./receiver.js";
export * from "./secrets.js";
export * from "./signature.js";
