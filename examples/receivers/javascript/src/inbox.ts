import { type LumenhookEvent, parseEvent } from "./events.js";

// How often an event is handled before it is set aside, and the longest time between two tries:
// ten hours in all. A try that is not finished when the next is due counts as killed.
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
 * A database of SQLite, as node:sqlite, better-sqlite3 and libsql have it. Their types differ in
 * what they take as values, so that any is taken here: the kit gives texts, numbers and bytes.
 */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): {
    run(...values: any[]): { changes: number | bigint };
    all(...values: any[]): unknown[];
  };
}

/**
 * The work that an event brings. What it writes through the database is written once. It is
 * synchronous, because it is inside of a transaction of the one connection: what is to be awaited
 * is kept in a table of yours, and done from there. So its type is no void alone, which would take
 * a function that returns a Promise.
 */
export type Handle<DB extends Database = Database> = (
  db: DB,
  event: LumenhookEvent,
) => void | undefined;

/** A row is there before the service is told 200, and stays: a repeat is known by it. */
export class Inbox<DB extends Database = Database> {
  readonly #db: DB;
  #wake = () => {};

  constructor(db: DB) {
    this.#db = db;
    // What was answered with 200 outlives a loss of power: synchronous is FULL.
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;");
    db.exec(create);
  }

  /** Keeps an event. False if it was there before. */
  record(webhookId: string, body: Uint8Array): boolean {
    const now = Date.now();
    const isNew = Number(this.#db.prepare(record).run(webhookId, body, now, now).changes) > 0;
    if (isNew) this.#wake();
    return isNew;
  }

  /**
   * Handles events as they come, and those that a process before left. Several workers, in
   * several processes, may share a table.
   */
  start(handle: Handle<DB>): void {
    let next: NodeJS.Immediate | undefined;
    // One event at a time, so that requests are answered in between.
    this.#wake = () => {
      next ??= setImmediate(() => {
        next = undefined;
        if (this.#tryOne(handle)) this.#wake();
      });
    };
    // For what others recorded, and for tries that are due.
    setInterval(() => this.#wake(), 1000);
    this.#wake();
  }

  #tryOne(handle: Handle<DB>): boolean {
    try {
      return this.#workOne(handle);
    } catch (error) {
      console.error("the inbox is read again later:", error);
      return false;
    }
  }

  /**
   * Claims the oldest event that is due, and handles it. The claim is committed first: so an
   * event that kills the process is tried less and less often, and holds up nothing.
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
        returned.catch(() => {}); // it is told of here
        throw new TypeError("the function that handles events is to be synchronous");
      }
      const finished = this.#db.prepare(finish).run(Date.now(), row.webhook_id).changes;
      // None is finished if another worker was faster.
      this.#db.exec(Number(finished) > 0 ? "COMMIT" : "ROLLBACK");
    } catch (error) {
      this.#db.exec("ROLLBACK");
      console.error(`${row.webhook_id} is tried again later:`, error);
      this.#db.prepare(fail).run(String(error), row.webhook_id);
    }
    return true;
  }
}
