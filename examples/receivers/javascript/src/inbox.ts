import { type LumenhookEvent, parseEvent } from "./events.js";

// How often an event is tried before it is set aside, and the longest wait between two tries: ten
// hours in total. A try that has not finished when the next one is due counts as killed.
const maxTries = 20;
const maxWaitMillis = 3_600_000;

const create = `
CREATE TABLE IF NOT EXISTS inbox (
  webhook_id  TEXT PRIMARY KEY,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL, -- Unix milliseconds, as all times here
  tries       INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  done_at     INTEGER,
  error       TEXT
);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (received_at) WHERE done_at IS NULL;`;

const record = `
INSERT INTO inbox (webhook_id, body, received_at, next_try_at) VALUES (?, ?, ?, ?)
ON CONFLICT (webhook_id) DO NOTHING`;

const claim = `
UPDATE inbox SET tries = tries + 1, next_try_at = ? + min(1000 << (tries + 1), ?)
WHERE webhook_id = (
  SELECT webhook_id FROM inbox WHERE done_at IS NULL AND next_try_at <= ? AND tries < ?
  ORDER BY received_at LIMIT 1)
RETURNING webhook_id, body`;

const finish = `
UPDATE inbox SET done_at = ?, error = NULL WHERE webhook_id = ? AND done_at IS NULL`;
const fail = "UPDATE inbox SET error = ? WHERE webhook_id = ?";

/**
 * An SQLite database from node:sqlite, better-sqlite3 or libsql. Their types differ in the values
 * they accept, so this one accepts any. The kit passes strings, numbers and bytes.
 */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): {
    run(...values: any[]): { changes: number | bigint };
    all(...values: any[]): unknown[];
  };
}

/**
 * Handles an event. What it writes through the database is written once per event. It must be
 * synchronous, because it runs inside a transaction on the only connection. If you need to await
 * something, store it in a table of your own and do it from there. Its type isn't plain void,
 * because that would accept a function that returns a Promise.
 */
export type Handle<DB extends Database = Database> = (
  db: DB,
  event: LumenhookEvent,
) => void | undefined;

/**
 * A row is stored before the service receives a 200. It is never deleted, because it identifies
 * duplicates.
 */
export class Inbox<DB extends Database = Database> {
  readonly #db: DB;
  #wake = () => {};

  constructor(db: DB) {
    this.#db = db;
    // With synchronous = FULL, an event that was answered with 200 survives a power loss.
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;");
    db.exec(create);
  }

  /** Stores an event. Returns false if it was stored before. */
  record(webhookId: string, body: Uint8Array): boolean {
    const now = Date.now();
    const isNew = Number(this.#db.prepare(record).run(webhookId, body, now, now).changes) > 0;
    if (isNew) this.#wake();
    return isNew;
  }

  /**
   * Handles new events, and those that a previous process left behind. Several workers in several
   * processes may share a table.
   */
  start(handle: Handle<DB>): void {
    let next: NodeJS.Immediate | undefined;
    // Handle one event at a time, so that the server can respond to requests in between.
    this.#wake = () => {
      next ??= setImmediate(() => {
        next = undefined;
        if (this.#tryOne(handle)) this.#wake();
      });
    };
    // For events that others recorded, and for retries.
    setInterval(() => this.#wake(), 1000);
    this.#wake();
  }

  #tryOne(handle: Handle<DB>): boolean {
    try {
      return this.#workOne(handle);
    } catch (error) {
      console.error("the inbox failed and is retried:", error);
      return false;
    }
  }

  /**
   * Claims and handles the oldest event that is due. It commits the claim first, so that an event
   * that kills the process is retried less and less often and doesn't block others.
   */
  #workOne(handle: Handle<DB>): boolean {
    const now = Date.now();
    const rows = this.#db.prepare(claim).all(now, maxWaitMillis, now, maxTries);
    const row = rows[0] as { webhook_id: string; body: Uint8Array } | undefined;
    if (row === undefined) return false;
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const returned: unknown = handle(this.#db, parseEvent(row.body));
      if (returned instanceof Promise) {
        returned.catch(() => {}); // the error below reports it
        throw new TypeError("the handler must be synchronous");
      }
      const finished = this.#db.prepare(finish).run(Date.now(), row.webhook_id).changes;
      // If another worker was faster, no row changes.
      this.#db.exec(Number(finished) > 0 ? "COMMIT" : "ROLLBACK");
    } catch (error) {
      this.#db.exec("ROLLBACK");
      console.error(`${row.webhook_id} failed and is retried later:`, error);
      this.#db.prepare(fail).run(String(error), row.webhook_id);
    }
    return true;
  }
}
