import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Checks requests that were kept as files: java Main SECRET KEYS FILE… */
final class Main {
  interface Check {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    List<String> keys = List.of(args[1].split(","));
    for (String file : Arrays.copyOfRange(args, 2, args.length)) {
      String request = new String(Files.readAllBytes(Path.of(file)), StandardCharsets.UTF_8);
      String[] parts = request.split("\r\n\r\n", 2);
      Map<String, List<String>> fields = new TreeMap<>();
      for (String line : parts[0].lines().skip(1).toList()) {
        String[] field = line.split(": ", 2);
        fields.put(field[0], List.of(field[1]));
      }
      byte[] body = parts[1].getBytes(StandardCharsets.UTF_8);
      HttpHeaders headers = HttpHeaders.of(fields, (name, value) -> true);
      say(file, "v1", () -> Verify.verify(args[0], body, headers));
      say(file, "v1a", () -> Verify.verifyPublicly(keys, body, headers));
    }
  }

  static void say(String file, String version, Check check) {
    try {
      check.run();
      System.out.println(file + " " + version + " verified");
    } catch (Exception refused) {
      System.out.println(file + " " + version + " refused: " + refused.getMessage());
    }
  }
}
