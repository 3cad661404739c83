// Shared by the three examples: a shop that credits the payments it receives.
import Database from "libsql"; // node:sqlite and better-sqlite3 do as well
import { Inbox, isSample, paymentOf, Receiver, secretsFromFile } from "lumenhook-receiver";

export const port = Number(process.env.PORT ?? 8081);

// If two watches match a payment, there are two events. The payment's id prevents crediting it
// twice.
const create = `
CREATE TABLE IF NOT EXISTS credits (
  payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT);
CREATE TABLE IF NOT EXISTS processed (event_id TEXT);`;

/** The shop's receiver. With WORKER=off it only receives, and another process does the work. */
export function openShop() {
  const secrets = readSecrets();
  const db = new Database(process.env.DATABASE ?? "shop.db");
  db.exec(create);
  const inbox = new Inbox(db);
  if (process.env.WORKER !== "off") inbox.start(credit);
  return { receiver: new Receiver(secrets, inbox), processed: () => processed(db) };
}

function readSecrets() {
  try {
    return secretsFromFile(process.env.LUMENHOOK_SECRET_FILE ?? "");
  } catch (error) {
    stop(`LUMENHOOK_SECRET_FILE must name a file with the endpoint's secret: ${error.message}`);
  }
}

/** Prints where the shop listens, or exits if it can't. */
export function listening(error) {
  if (error) stop(`PORT must be a free port: ${error.message}`);
  console.log(`listening at http://127.0.0.1:${port}/webhooks`);
}

/** Exits with a line that says why. */
function stop(why) {
  console.error(why);
  process.exit(1);
}

/** Handles an event in this shop. */
function credit(db, event) {
  if (event.type === "payment.received") {
    const data = paymentOf(event);
    if (!isSample(data)) creditPayment(db, data.payment);
  }
  db.prepare("INSERT INTO processed VALUES (?)").run(event.id);
}

function creditPayment(db, payment) {
  db.prepare("INSERT INTO credits VALUES (?, ?, ?, ?) ON CONFLICT (payment_id) DO NOTHING").run(
    payment.id,
    payment.to,
    payment.asset.code,
    String(BigInt(payment.amountStroops)),
  );
}

/** What was processed so far. */
function processed(db) {
  const events = db.prepare("SELECT event_id FROM processed ORDER BY rowid").all();
  const credits = db.prepare("SELECT payment_id, stroops FROM credits").all();
  return {
    events: events.map((row) => row.event_id),
    credits: Object.fromEntries(credits.map((row) => [row.payment_id, row.stroops])),
  };
}
