import com.standardwebhooks.Webhook;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.X509EncodedKeySpec;
import java.time.Instant;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;

final class Verify {
  /** Checks v1 with the endpoint's secret, whsec_…. */
  static void verify(String secret, byte[] body, HttpHeaders headers) throws Exception {
    new Webhook(secret).verify(new String(body, StandardCharsets.UTF_8), headers);
  }

  /** Checks v1a with the x of each key of your endpoint, which are at
   * /.well-known/endpoints/ENDPOINT_ID/jwks.json. */
  static void verifyPublicly(List<String> keys, byte[] body, HttpHeaders headers)
      throws GeneralSecurityException {
    long sent = headers.firstValueAsLong("Webhook-Timestamp").orElseThrow();
    if (Math.abs(Instant.now().getEpochSecond() - sent) > 300) {
      throw new GeneralSecurityException("the timestamp is too far from the clock");
    }
    String before = headers.firstValue("Webhook-Id").orElseThrow() + "." + sent + ".";
    for (String entry : headers.firstValue("Webhook-Signature").orElseThrow().split(" ")) {
      for (String x : entry.startsWith("v1a,") ? keys : List.<String>of()) {
        // A raw key with the 12 bytes before it that every encoded key has (RFC 8410).
        String key = "302a300506032b6570032100"
            + HexFormat.of().formatHex(Base64.getUrlDecoder().decode(x));
        Signature check = Signature.getInstance("Ed25519");
        check.initVerify(KeyFactory.getInstance("Ed25519")
            .generatePublic(new X509EncodedKeySpec(HexFormat.of().parseHex(key))));
        check.update(before.getBytes(StandardCharsets.UTF_8));
        check.update(body);
        try {
          if (check.verify(Base64.getDecoder().decode(entry.substring(4)))) {
            return;
          }
        } catch (IllegalArgumentException | SignatureException e) {
          break; // it is no signature: another entry may be one
        }
      }
    }
    throw new GeneralSecurityException("no signature matches");
  }
}
