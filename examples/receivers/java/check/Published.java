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
    require(!checks.isEmpty() && !events.isEmpty(), "nothing is published");
    checks.forEach(Published::verifies);
    events.forEach(Published::comesOutAsItWentIn);
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
    Object data = event.type().equals(Event.TEST_PING) ? event.ping() : event.payment();
    Event again =
        new Event(
            event.id(), event.type(), event.apiVersion(), event.createdAt(), JSON.valueToTree(data));
    // As text, in which a number is a number of whatever kind.
    JsonNode encoded = JSON.readTree(JSON.writeValueAsString(again));
    require(encoded.equals(given), given + " came out as " + encoded);
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
