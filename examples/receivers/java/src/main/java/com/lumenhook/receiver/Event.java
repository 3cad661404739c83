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
 * The body of a webhook (schemas/events). The type of data depends on type. Ignore unknown types
 * and fields, because new ones may be added.
 *
 * @param createdAt ISO 8601, UTC
 */
public record Event(String id, String type, String apiVersion, String createdAt, JsonNode data) {
  public static final String PAYMENT_RECEIVED = "payment.received";
  public static final String PAYMENT_REJECTED = "payment.rejected";
  public static final String TEST_PING = "test.ping";

  /** About another endpoint of the account that sends its notices to this one. */
  public static final String ENDPOINT_FAILING = "endpoint.failing";

  /** About another endpoint of the account that sends its notices to this one. */
  public static final String ENDPOINT_DISABLED = "endpoint.disabled";

  /** The watch id in sample events. No watch has it. */
  private static final String SAMPLE_WATCH = "wat_00000000000000000000000000";

  /** Ignores unknown fields. Rejects missing fields, and numbers where text belongs. */
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
     * Whether the payment is a sample (lumenhook endpoints test --type payment.received). A sample
     * is not a real payment, so don't credit it.
     */
    @JsonIgnore
    public boolean isSample() {
      return watch.id.equals(SAMPLE_WATCH);
    }
  }

  /**
   * A payment on the Stellar network.
   *
   * @param ledgerClosedAt ISO 8601, UTC
   * @param toMuxedId may be null
   * @param memo may be null
   * @param memoType text, id, hash or return; may be null
   * @param amount in units, with 7 digits after the point
   * @param amountStroops the same as an integer; use {@link #stroops} for arithmetic
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
    /** The amount as an integer. One unit is 10,000,000 stroops. */
    public long stroops() {
      if (!amountStroops.matches("[0-9]+")) {
        throw new IllegalArgumentException("payment " + id + " has no amount");
      }
      return Long.parseLong(amountStroops);
    }
  }

  /** The asset of a payment. The issuer is null for XLM, the native asset. */
  public record Asset(String code, String issuer) {}

  /** The watch that the payment matched. */
  public record Watch(String id, String label, String walletAddress) {}

  /**
   * The result of checking the payment against the watch's rules.
   *
   * @param outcome VERIFIED or REJECTED
   * @param reasons why it was rejected, for example AMOUNT_MISMATCH
   */
  public record Verification(String outcome, List<String> reasons) {}

  /** The data of test.ping. */
  public record PingData(Endpoint endpoint) {}

  /**
   * The data of endpoint.failing: the endpoint has accepted nothing for a while.
   *
   * @param failingSince ISO 8601, UTC
   */
  public record FailingData(
      Endpoint endpoint, String failingSince, long failedAttempts, LastAttempt lastAttempt) {}

  /**
   * The data of endpoint.disabled: the service no longer sends to the endpoint.
   *
   * @param reason gone or consecutive_failures
   * @param disabledAt ISO 8601, UTC
   */
  public record DisabledData(
      Endpoint endpoint, String reason, String disabledAt, LastAttempt lastAttempt) {}

  /** The endpoint that an event is about, as of the event's creation. */
  public record Endpoint(String id, String url, String description) {}

  /**
   * The result of the last attempt at the endpoint. It has either a status or an error.
   *
   * @param statusCode may be null
   * @param error may be null
   */
  public record LastAttempt(String eventId, Integer statusCode, String error) {}

  /** Parses a body, which must be one JSON object in UTF-8 with the fields of every event. */
  public static Event parse(byte[] body) {
    try {
      // Decode it here, because a parser would detect UTF-16 and skip a byte order mark.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
      Event event = JSON.readValue(text, Event.class);
      if (event == null || isEmpty(event.id) || isEmpty(event.type)) {
        throw new IllegalArgumentException("the body is not an event: it has no id or type");
      }
      return event;
    } catch (CharacterCodingException | JacksonException e) {
      throw new IllegalArgumentException("the body is not an event in JSON and UTF-8", e);
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
