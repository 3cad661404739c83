package com.lumenhook.receiver;

import com.fasterxml.jackson.annotation.JsonIgnore;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.cfg.CoercionAction;
import tools.jackson.databind.cfg.CoercionInputShape;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.type.LogicalType;

/**
 * The body of a webhook, after the JSON Schemas of schemas/events: what data holds depends on type.
 * There may be other types one day, and other fields: pass over what you do not know.
 *
 * @param createdAt ISO 8601, UTC
 */
public record Event(String id, String type, String apiVersion, String createdAt, JsonNode data) {
  public static final String PAYMENT_RECEIVED = "payment.received";
  public static final String PAYMENT_REJECTED = "payment.rejected";
  public static final String TEST_PING = "test.ping";

  /** Of another endpoint of the account, whose notices come to this one. */
  public static final String ENDPOINT_FAILING = "endpoint.failing";

  /** Of another endpoint of the account, whose notices come to this one. */
  public static final String ENDPOINT_DISABLED = "endpoint.disabled";

  /** The watch of samples, which is nobody's. */
  private static final String SAMPLE_WATCH = "wat_00000000000000000000000000";

  /** Unknown fields are passed over, missing ones and numbers for text are refused. */
  private static final JsonMapper JSON =
      JsonMapper.builder()
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .withCoercionConfig(
              LogicalType.Textual,
              config -> {
                config.setCoercion(CoercionInputShape.Integer, CoercionAction.Fail);
                config.setCoercion(CoercionInputShape.Float, CoercionAction.Fail);
                config.setCoercion(CoercionInputShape.Boolean, CoercionAction.Fail);
              })
          .build();

  /** The data of payment.received and payment.rejected. */
  public record PaymentData(Payment payment, Watch watch, Verification verification) {
    /**
     * Whether the payment is a sample (lumenhook endpoints test --type payment.received), which
     * nobody paid: credit nothing for it.
     */
    @JsonIgnore
    public boolean isSample() {
      return watch.id.equals(SAMPLE_WATCH);
    }
  }

  /**
   * A payment of the Stellar network.
   *
   * @param ledgerClosedAt ISO 8601, UTC
   * @param toMuxedId may be null
   * @param memo may be null
   * @param memoType text, id, hash or return; may be null
   * @param amount in units, with 7 digits after the point
   * @param amountStroops the same as an integer: compute with {@link #stroops}
   */
  public record Payment(
      String id,
      String txHash,
      long ledger,
      String ledgerClosedAt,
      String from,
      String to,
      String toMuxedId,
      String memo,
      String memoType,
      Asset asset,
      String amount,
      String amountStroops) {
    /** The amount as an integer, 10,000,000 to one unit. */
    public long stroops() {
      if (!amountStroops.matches("[0-9]+")) {
        throw new IllegalArgumentException("payment " + id + " has no amount");
      }
      return Long.parseLong(amountStroops);
    }
  }

  /** What was paid. The issuer is null for XLM, the network's own. */
  public record Asset(String code, String issuer) {}

  /** The watch that the payment matched. */
  public record Watch(String id, String label, String walletAddress) {}

  /**
   * How the payment did by the rules of the watch.
   *
   * @param outcome VERIFIED or REJECTED
   * @param reasons every reason against it, such as AMOUNT_TOO_LOW
   */
  public record Verification(String outcome, List<String> reasons) {}

  /** The data of test.ping. */
  public record PingData(Endpoint endpoint) {}

  /**
   * The data of endpoint.failing: the endpoint has taken nothing for a while.
   *
   * @param failingSince ISO 8601, UTC
   */
  public record FailingData(
      Endpoint endpoint, String failingSince, long failedAttempts, LastAttempt lastAttempt) {}

  /**
   * The data of endpoint.disabled: nothing is sent to the endpoint any more.
   *
   * @param reason gone or consecutive_failures
   * @param disabledAt ISO 8601, UTC
   */
  public record DisabledData(
      Endpoint endpoint, String reason, String disabledAt, LastAttempt lastAttempt) {}

  /** The endpoint that an event is about, as it was when the event was made. */
  public record Endpoint(String id, String url, String description) {}

  /**
   * What the endpoint's receiver answered last. Without a status there is an error.
   *
   * @param statusCode may be null
   * @param error may be null
   */
  public record LastAttempt(String eventId, Integer statusCode, String error) {}

  /** Reads a body: one JSON object in UTF-8 with the fields of every event. */
  public static Event parse(byte[] body) {
    try {
      // Decoded here: a parser would guess UTF-16 from bytes, and pass over a byte order mark.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
      Event event = JSON.readValue(text, Event.class);
      if (event == null || isEmpty(event.id) || isEmpty(event.type)) {
        throw new IllegalArgumentException("the body is no event: it has no id or no type");
      }
      return event;
    } catch (CharacterCodingException | JacksonException e) {
      throw new IllegalArgumentException("the body is no event in JSON and UTF-8", e);
    }
  }

  /** The data of payment.received or payment.rejected. */
  public PaymentData payment() {
    return dataAs(PaymentData.class);
  }

  /** The data of test.ping. */
  public PingData ping() {
    return dataAs(PingData.class);
  }

  /** The data of endpoint.failing. */
  public FailingData failing() {
    return dataAs(FailingData.class);
  }

  /** The data of endpoint.disabled. */
  public DisabledData disabled() {
    return dataAs(DisabledData.class);
  }

  private <T> T dataAs(Class<T> kind) {
    try {
      return JSON.treeToValue(data, kind);
    } catch (JacksonException e) {
      throw new IllegalArgumentException("the data of " + id + " is no " + kind.getSimpleName(), e);
    }
  }

  private static boolean isEmpty(String text) {
    return text == null || text.isEmpty();
  }
}
