import com.lumenhook.receiver.Event;
import com.lumenhook.receiver.Inbox;
import com.lumenhook.receiver.Receiver;
import com.lumenhook.receiver.Secrets;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import org.sqlite.SQLiteConfig;
import org.sqlite.SQLiteDataSource;

/**
 * A shop that credits the payments it receives, with Spring Boot. With WORKER=off it only receives,
 * and another process does the work.
 */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Shop {
  public static void main(String[] args) {
    try {
      secrets();
    } catch (IOException | IllegalArgumentException e) {
      System.err.println(
          "LUMENHOOK_SECRET_FILE must name the file that"
              + " lumenhook endpoints create --secret-out wrote: "
              + e.getMessage());
      System.exit(1);
    }
    SpringApplication shop = new SpringApplication(Shop.class);
    shop.setDefaultProperties(
        Map.of(
            "server.address", "127.0.0.1",
            "server.port", "${PORT:8081}",
            "spring.main.banner-mode", "off"));
    shop.run(args);
  }

  @Bean
  static Secrets secrets() throws IOException {
    return Secrets.fromFile(Path.of(System.getenv().getOrDefault("LUMENHOOK_SECRET_FILE", "")));
  }

  @Bean
  DataSource database() throws SQLException {
    SQLiteConfig config = new SQLiteConfig();
    config.setJournalMode(SQLiteConfig.JournalMode.WAL);
    // An event that was answered with 200 must survive a power loss.
    config.setSynchronous(SQLiteConfig.SynchronousMode.FULL);
    config.setTransactionMode(SQLiteConfig.TransactionMode.IMMEDIATE);
    config.setBusyTimeout(5000);
    SQLiteDataSource database = new SQLiteDataSource(config);
    database.setUrl("jdbc:sqlite:" + System.getenv().getOrDefault("DATABASE", "shop.db"));
    try (Connection db = database.getConnection();
        Statement statement = db.createStatement()) {
      // If two watches match a payment, there are two events. The payment's id prevents crediting
      // it twice.
      statement.execute(
          "CREATE TABLE IF NOT EXISTS credits"
              + " (payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT)");
      statement.execute("CREATE TABLE IF NOT EXISTS processed (event_id TEXT)");
    }
    return database;
  }

  @Bean
  Receiver receiver(Secrets secrets, DataSource database) throws SQLException {
    Inbox inbox = new Inbox(database);
    if (!"off".equals(System.getenv("WORKER"))) {
      inbox.start(Shop::credit);
    }
    return new Receiver(secrets, inbox);
  }

  /** Handles an event in this shop. */
  static void credit(Connection transaction, Event event) throws SQLException {
    // A sample is not a real payment.
    if (event.type().equals(Event.PAYMENT_RECEIVED) && !event.payment().isSample()) {
      Event.Payment payment = event.payment().payment();
      try (PreparedStatement insert =
          transaction.prepareStatement(
              "INSERT INTO credits VALUES (?, ?, ?, ?) ON CONFLICT (payment_id) DO NOTHING")) {
        insert.setString(1, payment.id());
        insert.setString(2, payment.to());
        insert.setString(3, payment.asset().code());
        insert.setString(4, Long.toString(payment.stroops()));
        insert.executeUpdate();
      }
    }
    try (PreparedStatement insert =
        transaction.prepareStatement("INSERT INTO processed VALUES (?)")) {
      insert.setString(1, event.id());
      insert.executeUpdate();
    }
  }

  /** The routes. */
  @RestController
  static class Webhooks {
    private final Receiver receiver;
    private final DataSource database;

    Webhooks(Receiver receiver, DataSource database) {
      this.receiver = receiver;
      this.database = database;
    }

    /** Reads the raw body from the request. Spring would convert a parameter. */
    @PostMapping("/webhooks")
    ResponseEntity<String> webhook(HttpServletRequest request) throws IOException {
      byte[] body = request.getInputStream().readNBytes(Receiver.MAX_BODY_BYTES + 1);
      Receiver.Answer answer = receiver.receive(name -> header(request, name), body);
      return ResponseEntity.status(answer.status())
          .contentType(MediaType.TEXT_PLAIN)
          .body(answer.text());
    }

    private static String header(HttpServletRequest request, String name) {
      List<String> values = Collections.list(request.getHeaders(name));
      return values.isEmpty() ? null : String.join(",", values);
    }

    /** What was processed so far. */
    @GetMapping("/processed")
    Map<String, Object> processed() throws SQLException {
      List<String> events = new ArrayList<>();
      Map<String, String> credits = new HashMap<>();
      try (Connection db = database.getConnection();
          Statement statement = db.createStatement()) {
        ResultSet rows = statement.executeQuery("SELECT event_id FROM processed ORDER BY rowid");
        while (rows.next()) {
          events.add(rows.getString(1));
        }
        rows = statement.executeQuery("SELECT payment_id, stroops FROM credits");
        while (rows.next()) {
          credits.put(rows.getString(1), rows.getString(2));
        }
      }
      return Map.of("events", events, "credits", credits);
    }
  }
}
