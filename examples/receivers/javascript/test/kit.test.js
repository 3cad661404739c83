// Checks the kit against the published vectors and events.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  checkSecrets,
  disabledOf,
  failingOf,
  isSample,
  parseEvent,
  paymentOf,
  pingOf,
  Receiver,
  secretsFromFile,
  SignatureError,
  verify,
} from "lumenhook-receiver";

const published = (name) =>
  JSON.parse(readFileSync(new URL(`../../../../schemas/vectors/${name}`, import.meta.url), "utf8"));

test("verify does as the published vectors say", () => {
  const { checks } = published("signature.json");
  assert.ok(checks.length > 0);
  for (const { name, secret, timestamp, signature, body, clock, accepted } of checks) {
    const check = () =>
      verify({ timestamp, signature, body: Buffer.from(body) }, ["whsec_another", secret], clock * 1000);
    if (accepted) check();
    else assert.throws(check, SignatureError, name);
  }
});

// Anyone can sign with these secrets, or they are not secrets at all.
const noSecrets = {
  "no secret": [],
  "an empty one": [""],
  "one that is empty": ["whsec_another", ""],
  "the prefix": ["whsec_"],
  "a string in place of a list": "whsec_abc",
  "its letters": [..."whsec_abc"],
  "without its prefix": ["abc"],
  "with the end of its line": ["whsec_abc\n"],
  "a placeholder": ["whsec_…"],
  "nothing": undefined,
  "no string": [undefined],
};

test("what is no secret is refused when a receiver is made, and by verify", () => {
  const body = Buffer.from("{}");
  const timestamp = String(Math.floor(Date.now() / 1000));
  const hex = createHmac("sha256", "").update(`${timestamp}.`).update(body).digest("hex");
  for (const [name, secrets] of Object.entries(noSecrets)) {
    const refused = { name: "TypeError", message: /secret/ };
    assert.throws(() => new Receiver(secrets, {}), refused, name);
    assert.throws(() => verify({ timestamp, signature: `v1=${hex}`, body }, secrets), refused, name);
  }
  assert.throws(() => checkSecrets(["abc"]), {
    message: "a secret must be the endpoint's complete secret, starting with whsec_",
  });
});

function newFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), "kit-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("a file of secrets is read again, once a second at most", (t) => {
  const file = join(newFolder(t), "secrets");
  writeFileSync(file, "whsec_old\n");
  let now = 1_793_620_801_000;
  const secrets = secretsFromFile(file, () => now);
  for (const [text, held] of [
    ["whsec_old\nwhsec_new\n", ["whsec_old", "whsec_new"]],
    ["whsec_new\n", ["whsec_new"]],
    ["", ["whsec_new"]],
  ]) {
    now += 1000;
    writeFileSync(file, text);
    assert.deepEqual(secrets(), held);
    writeFileSync(file, "whsec_of_the_same_second");
    assert.deepEqual(secrets(), held);
  }
});

/** Returns an empty inbox and a webhook to it. */
function webhook(secret) {
  const recorded = [];
  const inbox = { record: (id) => recorded.push(id) > 0 };
  const body = Buffer.from(JSON.stringify(published("events.json")[0]));
  const timestamp = String(Math.floor(Date.now() / 1000));
  const hex = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex");
  const headers = new Headers({
    "Content-Type": "application/json",
    "Webhook-Id": published("events.json")[0].id,
    "Webhook-Timestamp": timestamp,
    "Webhook-Signature": `v1=${hex}`,
  });
  return { inbox, body, headers };
}

test("a receiver asks for its secrets at each webhook", () => {
  const { inbox, body, headers } = webhook("whsec_new");
  let secrets = ["whsec_old"];
  const receiver = new Receiver(() => secrets, inbox);
  const status = () => receiver.receive(headers, body).status;
  assert.equal(status(), 401);
  secrets = ["whsec_old", "whsec_new"];
  assert.equal(status(), 200);
  secrets = [""];
  assert.equal(status(), 503);
});

test("headers are taken in each form, whatever the case of their names", () => {
  const { inbox, body, headers } = webhook("whsec_1");
  const receiver = new Receiver(["whsec_1"], inbox);
  const object = Object.fromEntries(headers);
  const capitals = Object.entries(object).map(([name, value]) => [name.toUpperCase(), value]);
  const several = { ...object, "webhook-signature": ["v1=00", object["webhook-signature"]] };
  for (const given of [headers, object, Object.fromEntries(capitals), several, new Map(headers)]) {
    assert.equal(receiver.receive(given, body).status, 200);
  }
  assert.equal(receiver.receive((name) => headers.get(name), body).status, 200);
  assert.equal(receiver.receive({}, body).status, 415);
});

test("a body that was parsed before is said to be", () => {
  const { inbox, body, headers } = webhook("whsec_1");
  const receiver = new Receiver(["whsec_1"], inbox);
  const text = "the body must be the raw bytes of the request; something has parsed it already";
  for (const parsed of [JSON.parse(body), body.toString(), undefined]) {
    assert.deepEqual(receiver.receive(headers, parsed), { status: 500, text });
    const signed = { timestamp: "1", signature: "", body: parsed };
    assert.throws(() => verify(signed, ["whsec_1"]), { name: "TypeError", message: text });
  }
});

test("the examples do not start without a secret, and say so in a line", (t) => {
  const folder = newFolder(t);
  const empty = join(folder, "empty");
  writeFileSync(empty, "\n");
  for (const file of [undefined, join(folder, "missing"), empty]) {
    for (const example of ["express", "fastify"]) {
      const env = { ...process.env, LUMENHOOK_SECRET_FILE: file, DATABASE: join(folder, "shop.db") };
      const ended = spawnSync(process.execPath, [`examples/${example}.js`], { env, encoding: "utf8" });
      assert.match(ended.stderr, /^LUMENHOOK_SECRET_FILE must name .*\n$/);
      assert.equal(ended.status, 1);
    }
  }
});

// The data type of each event type, and the function that reads it.
const types = {
  "payment.received": ["PaymentData", paymentOf],
  "payment.rejected": ["PaymentData", paymentOf],
  "test.ping": ["PingData", pingOf],
  "endpoint.failing": ["FailingData", failingOf],
  "endpoint.disabled": ["DisabledData", disabledOf],
};

test("the examples say in a line that their port is taken", async (t) => {
  const folder = newFolder(t);
  const secret = join(folder, "secret");
  writeFileSync(secret, "whsec_1\n");
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  for (const example of ["express", "fastify"]) {
    const DATABASE = join(folder, `${example}.db`);
    const own = { PORT: String(taken.address().port), LUMENHOOK_SECRET_FILE: secret, DATABASE };
    const ended = spawnSync(process.execPath, [`examples/${example}.js`], {
      env: { ...process.env, ...own },
      encoding: "utf8",
    });
    assert.match(ended.stderr, /^PORT must be a free port: .*\n$/);
    assert.equal(ended.status, 1);
  }
});

// The compiler rejects a literal with a missing or an additional field.
test("types hold every field", () => {
  const events = [...published("events.json"), ...published("notices.json")];
  assert.deepEqual([...new Set(events.map(({ type }) => type))].sort(), Object.keys(types).sort());
  const literals = events.map((given) => {
    const event = parseEvent(Buffer.from(JSON.stringify(given)));
    const [type, dataOf] = types[event.type];
    assert.deepEqual(dataOf(event), given.data);
    const { data, ...envelope } = given;
    return `({ data: {}, ...${JSON.stringify(envelope)} }) satisfies LumenhookEvent;
(${JSON.stringify(data)}) satisfies ${type};`;
  });
  const file = "build/literals.ts";
  const names = ["LumenhookEvent", ...new Set(Object.values(types).map(([type]) => type))];
  const imported = `import type { ${names.join(", ")} } from "./index.js";`;
  writeFileSync(file, [imported, ...literals].join("\n"));
  compile(file);
});

test("a program in TypeScript compiles with each library of SQLite, and its mistakes do not", () => {
  compile("test/types.ts", "--types", "node", "--target", "es2023", "--lib", "es2023,dom");
});

function compile(file, ...options) {
  const tsc = ["node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--module", "nodenext"];
  execFileSync(process.execPath, [...tsc, "--ignoreConfig", ...options, file], { stdio: "inherit" });
}

test("a sample is told from a payment", () => {
  const { data } = published("events.json")[0];
  assert.equal(isSample(data), false);
  const watch = { ...data.watch, id: `wat_${"0".repeat(26)}` };
  assert.equal(isSample({ ...data, watch }), true);
});

test("an event of a type of later is readable, and of no type of today", () => {
  const [{ data, ...envelope }] = published("notices.json");
  const { failingSince, ...others } = data;
  const later = { ...envelope, type: "endpoint.moved", data: { ...others, failingFrom: failingSince } };
  const event = parseEvent(Buffer.from(JSON.stringify(later)));
  assert.deepEqual(event, later);
  for (const dataOf of [paymentOf, failingOf, disabledOf]) assert.throws(() => dataOf(event), TypeError);
});
