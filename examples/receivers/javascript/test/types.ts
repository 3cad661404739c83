// This TypeScript program uses the kit. It is compiled but not run. The compiler must reject the
// marked lines, and reports a mark without an error.
import type BetterSqlite3 from "better-sqlite3";
import Libsql from "libsql";
import { Inbox, Receiver, secretsFromFile } from "lumenhook-receiver";
import type { IncomingHttpHeaders } from "node:http";

// The types of node:sqlite in @types/node since 22.5. The kit is checked with the types of
// Node.js 20, which lack them.
type Value = null | number | bigint | string | NodeJS.ArrayBufferView;
interface StatementSync {
  run(...values: Value[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  run(named: Record<string, Value>, ...values: Value[]): { changes: number | bigint };
  all(...values: Value[]): Record<string, Value>[];
  all(named: Record<string, Value>, ...values: Value[]): Record<string, Value>[];
}
interface DatabaseSync {
  exec(sql: string): void;
  prepare(sql: string): StatementSync;
}

export function libraries(better: BetterSqlite3.Database, node: DatabaseSync): void {
  const inboxes = [new Inbox(new Libsql("x.db")), new Inbox(better), new Inbox(node)];
  for (const inbox of inboxes) new Receiver(["whsec_1"], inbox);
  new Inbox(better).start((db, event) => {
    db.pragma("foreign_keys"); // db has better-sqlite3's type
    db.prepare("INSERT INTO t VALUES (?)").run(event.id);
  });
}

function handle(db: Libsql.Database): void {
  db.exec("DELETE FROM t");
}

export function handlers(inbox: Inbox<Libsql.Database>): void {
  inbox.start(handle);
  // @ts-expect-error a handler must be synchronous
  inbox.start(async () => {});
  // @ts-expect-error a handler must be synchronous
  inbox.start((_db, event) => fetch(`https://shop.example/${event.id}`));
}

export function receivers(inbox: Inbox, fetched: Headers, http: IncomingHttpHeaders): void {
  new Receiver(() => ["whsec_1"], inbox);
  const receiver = new Receiver(secretsFromFile("secret"), inbox);
  const body = Buffer.alloc(0);
  for (const headers of [fetched, http, { "Webhook-Id": "evt_1" }]) receiver.receive(headers, body);
  receiver.receive((name) => fetched.get(name), body);
  // @ts-expect-error a string is not a list
  new Receiver("whsec_1", inbox);
  // @ts-expect-error the body must be bytes
  receiver.receive(fetched, "{}");
}
