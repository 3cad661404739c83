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
 * Checks and records webhooks. It answers 200 when the event is recorded, or was before; 503, so
 * that the service tries again, when it could not be; and 4xx to what is no event of the service.
 */
public final class Receiver {
  /** An event has less than 4 KB. Read one byte more than this at most, and hand that over. */
  public static final int MAX_BODY_BYTES = 65_536;

  private static final Logger LOG = System.getLogger(Receiver.class.getName());

  private final Secrets secrets;
  private final Inbox inbox;

  /** A status, and a line of text that says why. */
  public record Answer(int status, String text) {}

  /** Takes the webhooks of the endpoint that has these secrets, and records them in the inbox. */
  public Receiver(Secrets secrets, Inbox inbox) {
    this.secrets = secrets;
    this.inbox = inbox;
  }

  /**
   * Checks a webhook and records it.
   *
   * @param header the value of a header by its name: null if there is none, its values joined by
   *     commas if it was sent several times
   * @param body what was received, byte for byte
   */
  public Answer receive(UnaryOperator<String> header, byte[] body) {
    Answer answer = checkAndRecord(header, body);
    if (answer.status != 200) {
      LOG.log(Level.WARNING, "a webhook was not taken: {0}, {1}", answer.status, answer.text);
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
            500, "the body must be the raw bytes of the request; something has parsed it before");
      }
      return new Answer(401, e.getMessage());
    } catch (IllegalArgumentException e) {
      return new Answer(400, e.getMessage());
    }
    // The header is not signed, and the body is: who recorded a webhook could send it again under
    // other ids.
    if (!event.id().equals(header.apply("Webhook-Id"))) {
      return new Answer(400, "Webhook-Id is not the id of the body");
    }
    try {
      return new Answer(200, inbox.record(event.id(), body) ? "recorded" : "had before");
    } catch (SQLException e) {
      LOG.log(Level.ERROR, event.id() + " could not be recorded", e);
      return new Answer(503, "the event could not be recorded: send it again");
    }
  }

  /** Whether the request had a body of another length: it was read before, or written anew. */
  private static boolean isNotWhatWasSent(UnaryOperator<String> header, byte[] body) {
    String sent = header.apply("Content-Length");
    return sent != null && !sent.trim().equals(Integer.toString(body.length));
  }

  /** Whether the body is what its bytes say, and no form of it. */
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
