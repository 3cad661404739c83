import com.lumenhook.receiver.Event;
import com.lumenhook.receiver.Signature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The published vectors, and events in the kit's types: java Published FOLDER-OF-VECTORS. */
final class Published {
  private static final JsonMapper JSON = new JsonMapper();

  public static void main(String[] args) {
    JsonNode checks = read(args[0], "signature.json").get("checks");
    JsonNode events = read(args[0], "events.json");
    JsonNode notices = read(args[0], "notices.json");
    require(
        !checks.isEmpty() && !events.isEmpty() && !notices.isEmpty(), "nothing is published");
    checks.forEach(Published::verifies);
    events.forEach(Published::comesOutAsItWentIn);
    notices.forEach(Published::comesOutAsItWentIn);
    isReadableOfATypeOfLater(notices.get(0));
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
    // As text, in which a number is a number of whatever kind.
    JsonNode encoded = JSON.readTree(JSON.writeValueAsString(again));
    require(encoded.equals(given), given + " came out as " + encoded);
  }

  /** The data of an event, in the type that the event's type asks for. */
  private static Object typed(Event event) {
    return switch (event.type()) {
      case Event.PAYMENT_RECEIVED, Event.PAYMENT_REJECTED -> event.payment();
      case Event.TEST_PING -> event.ping();
      case Event.ENDPOINT_FAILING -> event.failing();
      case Event.ENDPOINT_DISABLED -> event.disabled();
      default -> throw new AssertionError("the kit has no type for " + event.type());
    };
  }

  /** An event of a type that the kit does not know, with data that is of no type of the kit. */
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

  private static JsonNode read(String folder, String name) {
    return JSON.readTree(Path.of(folder, name).toFile());
  }

  private static void require(boolean holds, String otherwise) {
    if (!holds) {
      throw new AssertionError(otherwise);
    }
  }
}
