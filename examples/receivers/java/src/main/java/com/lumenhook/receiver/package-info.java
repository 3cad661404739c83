/**
 * Takes webhooks of Lumenhook: checks each, records it once, answers, and hands it on afterwards.
 *
 * <ul>
 *   <li>{@link com.lumenhook.receiver.Signature} checks the signature;
 *   <li>{@link com.lumenhook.receiver.Secrets} are the endpoint's, which a rotation changes;
 *   <li>{@link com.lumenhook.receiver.Event} is the payload, typed;
 *   <li>{@link com.lumenhook.receiver.Inbox} is the table of events that were received;
 *   <li>{@link com.lumenhook.receiver.Receiver} says what to answer, whatever the framework.
 * </ul>
 *
 * <p>What it guarantees to the code that handles an event:
 *
 * <ol>
 *   <li>Its body was signed with a secret of yours within the last five minutes, byte for byte.
 *   <li>It is in the database before the service is told 200: no event is lost by a crash.
 *   <li>What the code writes through the connection that it is given is written once for each
 *       event, however often the event arrives and wherever the process is killed. What it does
 *       elsewhere (a mail, a call) may be done again, and has to be told apart by the event's id.
 * </ol>
 */
package com.lumenhook.receiver;
