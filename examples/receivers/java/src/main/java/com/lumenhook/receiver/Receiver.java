package com.lumenhook.receiver;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.SQLException;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.UnaryOperator;

/**
 * Checks and records webhooks. It responds with 200 if the event is recorded now or was recorded
 * before, with 503 if it could not be recorded, so that the service retries, and with 4xx if the
 * request is not a webhook of the service.
 */
public final class Receiver {
  /**
   * Events are smaller than 4 KB. Read at most one byte more than this, and pass on what you read.
   */
  public static final int MAX_BODY_BYTES = 65_536;

  private static final Logger LOG = System.getLogger(Receiver.class.getName());

  private final Secrets secrets;
  private final Inbox inbox;

  /** A status, and a line of text with the reason. */
  public record Answer(int status, String text) {}

  /** Creates a receiver that records an endpoint's webhooks in the inbox. */
  public Receiver(Secrets secrets, Inbox inbox) {
    this.secrets = secrets;
    this.inbox = inbox;
  }

  /**
   * Verifies and records a webhook.
   *
   * @param header returns the value of a header, or null if it's missing; joins repeated headers
   *     with commas
   * @param body the received bytes, unchanged
   */
  public Answer receive(UnaryOperator<String> header, byte[] body) {
    Answer answer = checkAndRecord(header, body);
    if (answer.status != 200) {
      LOG.log(Level.WARNING, "rejected a webhook: {0}, {1}", answer.status, answer.text);
    }
    return answer;
  }

  private Answer checkAndRecord(UnaryOperator<String> header, byte[] body) {
    if (!isPlainJson(header)) {
      return new Answer(415, "a webhook is application/json in UTF-8, not compressed");
    }
    if (body.length > MAX_BODY_BYTES) {
      return new Answer(413, "the body is too large");
    }
    String timestamp = header.apply("Webhook-Timestamp");
    String signature = header.apply("Webhook-Signature");
    long now = Instant.now().getEpochSecond();
    Event event;
    try {
      Signature.verify(timestamp, signature, body, secrets.current(now), now);
      event = Event.parse(body);
    } catch (Signature.RefusedException e) {
      if (isNotWhatWasSent(header, body)) {
        return new Answer(
            500, "the body must be the raw bytes of the request; something has parsed it already");
      }
      return new Answer(401, e.getMessage());
    } catch (IllegalArgumentException e) {
      return new Answer(400, e.getMessage());
    }
    // The body is signed, but this header is not. Anyone with a recorded webhook could send it
    // again under other ids.
    if (!event.id().equals(header.apply("Webhook-Id"))) {
      return new Answer(400, "Webhook-Id differs from the id in the body");
    }
    try {
      return new Answer(200, inbox.record(event.id(), body) ? "recorded" : "recorded before");
    } catch (SQLException e) {
      LOG.log(Level.ERROR, event.id() + " could not be recorded", e);
      return new Answer(503, "the event could not be recorded; send it again");
    }
  }

  /** Whether something has already read or rewritten the body, so that its length differs. */
  private static boolean isNotWhatWasSent(UnaryOperator<String> header, byte[] body) {
    String sent = header.apply("Content-Length");
    return sent != null && !sent.trim().equals(Integer.toString(body.length));
  }

  /** Whether the body is uncompressed JSON in UTF-8. */
  private static boolean isPlainJson(UnaryOperator<String> header) {
    String type = header.apply("Content-Type");
    String encoding = header.apply("Content-Encoding");
    List<String> parts =
        Arrays.stream((type == null ? "" : type).toLowerCase(Locale.ROOT).split(";"))
            .map(String::trim)
            .toList();
    return !parts.isEmpty()
        && parts.get(0).equals("application/json")
        && parts.stream()
            .filter(part -> part.startsWith("charset="))
            .allMatch(part -> part.matches("charset=\"?utf-8\"?"))
        && (encoding == null || encoding.isEmpty() || encoding.equalsIgnoreCase("identity"));
  }
}
