package com.lumenhook.receiver;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/**
 * The table of received events. A row is stored before the service receives a 200. It is never
 * deleted, because it identifies duplicates.
 */
public final class Inbox {
  // How often an event is tried before it is set aside, and the longest wait between two tries: ten
  // hours in total. A try that has not finished when the next one is due counts as killed.
  private static final int MAX_TRIES = 20;
  private static final long MAX_WAIT_MILLIS = 3_600_000;

  private static final String CREATE_TABLE =
      """
      CREATE TABLE IF NOT EXISTS inbox (
        webhook_id  TEXT PRIMARY KEY,
        body        BLOB NOT NULL,
        received_at INTEGER NOT NULL, -- Unix milliseconds, as all times here
        tries       INTEGER NOT NULL DEFAULT 0,
        next_try_at INTEGER NOT NULL,
        done_at     INTEGER,
        error       TEXT
      )""";
  private static final String CREATE_INDEX =
      "CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (received_at) WHERE done_at IS NULL";
  private static final String RECORD =
      """
      INSERT INTO inbox (webhook_id, body, received_at, next_try_at) VALUES (?, ?, ?, ?)
      ON CONFLICT (webhook_id) DO NOTHING""";
  private static final String CLAIM =
      """
      UPDATE inbox SET tries = tries + 1, next_try_at = ? + min(1000 << (tries + 1), ?)
      WHERE webhook_id = (
        SELECT webhook_id FROM inbox WHERE done_at IS NULL AND next_try_at <= ? AND tries < ?
        ORDER BY received_at LIMIT 1)
      RETURNING webhook_id, body""";
  private static final String FINISH =
      "UPDATE inbox SET done_at = ?, error = NULL WHERE webhook_id = ? AND done_at IS NULL";
  private static final String FAIL = "UPDATE inbox SET error = ? WHERE webhook_id = ?";

  private static final Logger LOG = System.getLogger(Inbox.class.getName());

  private final DataSource database;
  private final Semaphore wake = new Semaphore(0);

  /** Handles an event. What it writes through the connection is written once per event. */
  @FunctionalInterface
  public interface Handler {
    void handle(Connection transaction, Event event) throws Exception;
  }

  private record Claimed(String id, byte[] body) {}

  /** Creates the table if it doesn't exist. */
  public Inbox(DataSource database) throws SQLException {
    this.database = database;
    try (Connection db = database.getConnection();
        Statement statement = db.createStatement()) {
      statement.execute(CREATE_TABLE);
      statement.execute(CREATE_INDEX);
    }
  }

  /** Stores an event. Returns false if it was stored before. */
  public boolean record(String webhookId, byte[] body) throws SQLException {
    long now = System.currentTimeMillis();
    try (Connection db = database.getConnection()) {
      boolean isNew = update(db, RECORD, webhookId, body, now, now) > 0;
      if (isNew) {
        wake.release();
      }
      return isNew;
    }
  }

  /**
   * Handles new events, and those that a previous process left behind, in a thread. Several workers
   * in several processes may share a table.
   */
  public void start(Handler handler) {
    Thread worker = new Thread(() -> work(handler), "inbox");
    worker.setDaemon(true);
    worker.start();
  }

  private void work(Handler handler) {
    while (!Thread.currentThread().isInterrupted()) {
      try (Connection db = database.getConnection()) {
        while (true) {
          wake.drainPermits();
          if (!workOne(db, handler)) {
            // Check every second for events that others recorded, and for retries.
            wake.tryAcquire(1, TimeUnit.SECONDS);
          }
        }
      } catch (SQLException e) {
        LOG.log(Level.ERROR, "the inbox failed and is reopened", e);
        pause();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private void pause() {
    try {
      TimeUnit.SECONDS.sleep(1);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Claims and handles the oldest event that is due. It commits the claim first, so that an event
   * that kills the process is retried less and less often and doesn't block others.
   */
  private boolean workOne(Connection db, Handler handler) throws SQLException {
    Claimed claimed = claim(db);
    if (claimed == null) {
      return false;
    }
    db.setAutoCommit(false);
    try {
      handler.handle(db, Event.parse(claimed.body));
      if (update(db, FINISH, System.currentTimeMillis(), claimed.id) > 0) {
        db.commit();
      } else {
        db.rollback(); // another worker was faster
      }
    } catch (Exception e) { // whatever it is, this event caused it
      db.rollback();
      LOG.log(Level.ERROR, claimed.id + " failed and is retried later", e);
      update(db, FAIL, e.toString(), claimed.id);
      db.commit();
    } finally {
      db.setAutoCommit(true);
    }
    return true;
  }

  private static Claimed claim(Connection db) throws SQLException {
    long now = System.currentTimeMillis();
    try (PreparedStatement statement = prepare(db, CLAIM, now, MAX_WAIT_MILLIS, now, MAX_TRIES);
        ResultSet row = statement.executeQuery()) {
      return row.next() ? new Claimed(row.getString(1), row.getBytes(2)) : null;
    }
  }

  private static int update(Connection db, String sql, Object... values) throws SQLException {
    try (PreparedStatement statement = prepare(db, sql, values)) {
      return statement.executeUpdate();
    }
  }

  private static PreparedStatement prepare(Connection db, String sql, Object... values)
      throws SQLException {
    PreparedStatement statement = db.prepareStatement(sql);
    for (int i = 0; i < values.length; i++) {
      statement.setObject(i + 1, values[i]);
    }
    return statement;
  }
}
