// What the three examples share: a shop that credits the payments it is told of.
import Database from "libsql"; // node:sqlite and better-sqlite3 do as well
import { Inbox, isSample, paymentOf, Receiver, secretsFromFile } from "lumenhook-receiver";

export const port = Number(process.env.PORT ?? 8081);

// A payment that two watches match is two events: the payment's own id keeps it from being
// credited twice.
const create = `
CREATE TABLE IF NOT EXISTS credits (
  payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT);
CREATE TABLE IF NOT EXISTS processed (event_id TEXT);`;

/** The receiver of this shop. WORKER=off only receives: the work is another process's. */
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

/** Says where the shop listens, or ends the program where it cannot. */
export function listening(error) {
  if (error) stop(`PORT must name a port that is free: ${error.message}`);
  console.log(`listening at http://127.0.0.1:${port}/webhooks`);
}

/** Ends the program with a line that says why. */
function stop(why) {
  console.error(why);
  process.exit(1);
}

/** What this shop does with an event. */
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

/** What was done so far. */
function processed(db) {
  const events = db.prepare("SELECT event_id FROM processed ORDER BY rowid").all();
  const credits = db.prepare("SELECT payment_id, stroops FROM credits").all();
  return {
    events: events.map((row) => row.event_id),
    credits: Object.fromEntries(credits.map((row) => [row.payment_id, row.stroops])),
  };
}
