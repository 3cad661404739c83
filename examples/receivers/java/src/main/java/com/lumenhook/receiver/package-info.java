/**
 * Receives Lumenhook's webhooks: verifies each one, records it once, responds, and then passes it
 * to your code.
 *
 * <ul>
 *   <li>{@link com.lumenhook.receiver.Signature} checks the signature;
 *   <li>{@link com.lumenhook.receiver.Secrets} are the endpoint's secrets, which a rotation
 *       changes;
 *   <li>{@link com.lumenhook.receiver.Event} is the typed payload;
 *   <li>{@link com.lumenhook.receiver.Inbox} is the table of received events;
 *   <li>{@link com.lumenhook.receiver.Receiver} handles webhooks in any framework.
 * </ul>
 *
 * <p>For code that handles events, it guarantees:
 *
 * <ol>
 *   <li>The body was signed with one of your secrets within the last five minutes, byte for byte.
 *   <li>The event is in the database before the service receives a 200, so a crash loses no event.
 *   <li>Whatever the code writes through its connection is written once per event, however often
 *       the event arrives and wherever the process is killed. Other effects (an email, a call) may be
 *       repeated. Use the event's id to make them idempotent.
 * </ol>
 */
package com.lumenhook.receiver;
