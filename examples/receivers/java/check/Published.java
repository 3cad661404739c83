import com.lumenhook.receiver.Event;
import com.lumenhook.receiver.Receiver;
import com.lumenhook.receiver.Secrets;
import com.lumenhook.receiver.Signature;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Checks the kit against the published vectors and events. Usage: java Published FOLDER-OF-VECTORS.
 */
final class Published {
  private static final JsonMapper JSON = new JsonMapper();

  public static void main(String[] args) throws IOException {
    JsonNode checks = read(args[0], "signature.json").get("checks");
    JsonNode events = read(args[0], "events.json");
    JsonNode notices = read(args[0], "notices.json");
    require(
        !checks.isEmpty() && !events.isEmpty() && !notices.isEmpty(), "nothing is published");
    checks.forEach(Published::verifies);
    events.forEach(Published::comesOutAsItWentIn);
    notices.forEach(Published::comesOutAsItWentIn);
    isReadableOfATypeOfLater(notices.get(0));
    secretsThatAreNoneAreRefused();
    aRotationNeedsNoRestart();
    aBodyThatWasReadBeforeIsSaid();
    aSampleIsToldFromAPayment(events);
  }

  private static void verifies(JsonNode check) {
    boolean accepted = true;
    try {
      Signature.verify(
          check.get("timestamp").asString(),
          check.get("signature").asString(),
          check.get("body").asString().getBytes(StandardCharsets.UTF_8),
          List.of("whsec_another", check.get("secret").asString()),
          check.get("clock").asLong());
    } catch (Signature.RefusedException e) {
      accepted = false;
    }
    require(accepted == check.get("accepted").asBoolean(), check.get("name").asString());
  }

  private static void comesOutAsItWentIn(JsonNode given) {
    Event event = Event.parse(given.toString().getBytes(StandardCharsets.UTF_8));
    JsonNode data = JSON.valueToTree(typed(event));
    Event again = new Event(event.id(), event.type(), event.apiVersion(), event.createdAt(), data);
    // Compare via text, because Jackson's number types differ.
    JsonNode encoded = JSON.readTree(JSON.writeValueAsString(again));
    require(encoded.equals(given), given + " came out as " + encoded);
  }

  /** Returns the data of an event in the Java type for the event's type. */
  private static Object typed(Event event) {
    return switch (event.type()) {
      case Event.PAYMENT_RECEIVED, Event.PAYMENT_REJECTED -> event.payment();
      case Event.TEST_PING -> event.ping();
      case Event.ENDPOINT_FAILING -> event.failing();
      case Event.ENDPOINT_DISABLED -> event.disabled();
      default -> throw new AssertionError("the kit has no type for " + event.type());
    };
  }

  /** An event of an unknown type is readable, but its data is not of any type in the kit. */
  private static void isReadableOfATypeOfLater(JsonNode given) {
    String later =
        given.toString().replace("endpoint.failing", "endpoint.moved").replace("Since", "From");
    Event event = Event.parse(later.getBytes(StandardCharsets.UTF_8));
    require(event.type().equals("endpoint.moved"), "the type is " + event.type());
    require(event.data().has("failingFrom"), "the data is " + event.data());
    try {
      throw new AssertionError("it is taken for " + event.failing());
    } catch (IllegalArgumentException e) {
      require(e.getMessage().contains(event.id()), e.getMessage());
    }
  }

  /** An empty or malformed secret must not verify anything, because anyone can sign with it. */
  private static void secretsThatAreNoneAreRefused() throws IOException {
    Path file = Files.createTempFile("secrets", "");
    for (List<String> list :
        List.of(
            List.<String>of(),
            List.of("whsec_"),
            List.of("q8x2v5c7"),
            List.of("\"whsec_1\""),
            List.of("whsec_1", "w"))) {
      isRefused("verify", () -> Signature.verify("7", "v1=00", new byte[0], list, 7));
      isRefused("of", () -> Secrets.of(list));
      Files.write(file, list);
      isRefused("fromFile", () -> Secrets.fromFile(file));
    }
    isRefused("verify", () -> Signature.verify("7", "v1=00", new byte[0], List.of(""), 7));
    isRefused("of", () -> Secrets.of(List.of("")));
    Files.delete(file);
  }

  private interface Call {
    void run() throws Exception;
  }

  private static void isRefused(String name, Call call) {
    try {
      call.run();
    } catch (IllegalArgumentException e) {
      require(e.getMessage().contains("starting with whsec_"), e.getMessage());
      return;
    } catch (Exception e) {
      throw new AssertionError(name, e);
    }
    throw new AssertionError(name + " takes what is no secret");
  }

  /** The secrets file is read again once a second. An invalid file changes nothing. */
  private static void aRotationNeedsNoRestart() throws IOException {
    Path file = Files.createTempFile("secrets", "");
    Files.write(file, List.of("whsec_old"));
    Secrets secrets = Secrets.fromFile(file);
    Files.write(file, List.of("whsec_old", "whsec_new"));
    require(secrets.current(1).equals(List.of("whsec_old", "whsec_new")), "it is not read again");
    Files.write(file, List.of("whsec_new"));
    require(secrets.current(1).size() == 2, "it is read twice in a second");
    require(secrets.current(2).equals(List.of("whsec_new")), "a secret of before is kept");
    Files.write(file, List.of());
    require(secrets.current(3).equals(List.of("whsec_new")), "an empty file is taken");
    Files.delete(file);
  }

  /** The response must say so if something in front of the receiver has read the body. */
  private static void aBodyThatWasReadBeforeIsSaid() {
    Map<String, String> header =
        Map.of("Content-Type", "application/json", "Content-Length", "7");
    Receiver receiver = new Receiver(Secrets.of(List.of("whsec_1")), null);
    Receiver.Answer answer = receiver.receive(header::get, new byte[0]);
    require(
        answer.status() == 500 && answer.text().contains("raw bytes"), answer.toString());
  }

  private static void aSampleIsToldFromAPayment(JsonNode events) {
    for (JsonNode each : events) {
      if (!each.get("type").asString().equals(Event.PAYMENT_RECEIVED)) {
        continue;
      }
      String id = each.get("data").get("watch").get("id").asString();
      String sample = each.toString().replace(id, "wat_00000000000000000000000000");
      require(parsed(sample).payment().isSample(), "a sample is none");
      require(!parsed(each.toString()).payment().isSample(), "a payment is a sample");
    }
  }

  private static Event parsed(String text) {
    return Event.parse(text.getBytes(StandardCharsets.UTF_8));
  }

  private static JsonNode read(String folder, String name) {
    return JSON.readTree(Path.of(folder, name).toFile());
  }

  private static void require(boolean holds, String otherwise) {
    if (!holds) {
      throw new AssertionError(otherwise);
    }
  }
}
