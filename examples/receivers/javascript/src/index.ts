/**
 * Takes webhooks of Lumenhook: checks each, records it once, answers, and hands it on afterwards.
 *
 *     secrets.ts    the endpoint's secrets, which a rotation changes: secretsFromFile
 *     signature.ts  the signature: verify
 *     events.ts     the payloads, typed: LumenhookEvent, PaymentData, PingData and others
 *     inbox.ts      the table of events that were received: Inbox
 *     receiver.ts   what to answer: Receiver, whatever the framework
 *
 * What it guarantees to the code that handles an event:
 *
 * 1. Its body was signed with a secret of yours within the last five minutes, byte for byte.
 * 2. It is in the database before the service is told 200: no event is lost by a crash.
 * 3. What the code writes through the database that it is given is written once for each event,
 *    however often the event arrives and wherever the process is killed. What it does elsewhere
 *    (a mail, a call) may be done again, and has to be told apart by the event's id.
 */
export * from "./events.js";
export * from "./inbox.js";
export * from "./receiver.js";
export * from "./secrets.js";
export * from "./signature.js";
