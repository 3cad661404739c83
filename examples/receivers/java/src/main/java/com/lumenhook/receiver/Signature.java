package com.lumenhook.receiver;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The signature of a webhook. */
public final class Signature {
  private static final long TOLERANCE_SECONDS = 300;
  // Long.parseLong also accepts signs and digits of other scripts.
  private static final Pattern TIMESTAMP = Pattern.compile("[0-9]{1,12}");
  private static final Pattern ENTRY = Pattern.compile("v1=([0-9a-fA-F]{64})");

  private Signature() {}

  /** The signature is missing, wrong, or too old. */
  public static final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    RefusedException(String message) {
      super(message);
    }
  }

  /**
   * Checks that one of the complete secrets (whsec_…) signed the body, byte for byte as received,
   * within 300 seconds of now. Pass several secrets after a rotation.
   *
   * @param timestamp the value of Webhook-Timestamp, or null if it's missing
   * @param signature the value of Webhook-Signature, or null if it's missing
   * @throws IllegalArgumentException if there is no secret or one is invalid, because anyone can
   *     sign with an empty one
   */
  public static void verify(
      String timestamp, String signature, byte[] body, List<String> secrets, long nowSeconds)
      throws RefusedException {
    Secrets.check(secrets);
    if (timestamp == null || !TIMESTAMP.matcher(timestamp).matches()) {
      throw new RefusedException("Webhook-Timestamp is missing or malformed");
    }
    if (Math.abs(nowSeconds - Long.parseLong(timestamp)) > TOLERANCE_SECONDS) {
      throw new RefusedException("Webhook-Timestamp is more than 300 seconds from the clock");
    }
    // Skip signatures of other kinds.
    List<byte[]> given =
        Arrays.stream((signature == null ? "" : signature).split(","))
            .map(entry -> ENTRY.matcher(entry.trim()))
            .filter(Matcher::matches)
            .map(entry -> HexFormat.of().parseHex(entry.group(1)))
            .toList();
    for (String secret : secrets) {
      byte[] expected = mac(secret, timestamp, body);
      // MessageDigest.isEqual compares in constant time.
      if (given.stream().anyMatch(each -> MessageDigest.isEqual(each, expected))) {
        return;
      }
    }
    throw new RefusedException("no signature in Webhook-Signature matches the body and a secret");
  }

  private static byte[] mac(String secret, String timestamp, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
      mac.update((timestamp + ".").getBytes(StandardCharsets.US_ASCII));
      return mac.doFinal(body);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has HmacSHA256", e);
    }
  }
}
