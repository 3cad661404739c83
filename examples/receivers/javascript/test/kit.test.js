// The published vectors, and events in the kit's types.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { parseEvent, paymentOf, pingOf, SignatureError, verify } from "lumenhook-receiver";

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

// The compiler refuses a literal that lacks a field of its type, or has one more.
test("types hold every field", () => {
  const events = published("events.json");
  assert.ok(events.length > 0);
  const literals = events.map((given) => {
    const event = parseEvent(Buffer.from(JSON.stringify(given)));
    const isPing = event.type === "test.ping";
    assert.deepEqual(isPing ? pingOf(event) : paymentOf(event), given.data);
    const { data, ...envelope } = given;
    return `({ data: {}, ...${JSON.stringify(envelope)} }) satisfies LumenhookEvent;
(${JSON.stringify(data)}) satisfies ${isPing ? "PingData" : "PaymentData"};`;
  });
  const file = "build/literals.ts";
  const imported = 'import type { LumenhookEvent, PaymentData, PingData } from "./index.js";';
  writeFileSync(file, [imported, ...literals].join("\n"));
  const tsc = ["node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--module", "nodenext"];
  execFileSync(process.execPath, [...tsc, "--ignoreConfig", file], { stdio: "inherit" });
});
