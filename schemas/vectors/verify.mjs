// Checks signature.json with node's own crypto, by the specification alone.
// usage: node verify.mjs signature.json; exits with 1 if anything differs.
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const mac = (secret, timestamp, body) =>
  createHmac("sha256", secret).update(timestamp + ".").update(Buffer.from(body, "utf8")).digest();

function accepts({ secret, signature, timestamp, body, clock }) {
  if (!/^[0-9]{1,12}$/.test(timestamp)) return false;
  if (Math.abs(clock - Number(timestamp)) > 300) return false;
  const expected = mac(secret, timestamp, body);
  return signature
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry.startsWith("v1="))
    .map((entry) => Buffer.from(entry.slice(3), "hex"))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}

const { vectors, checks } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const wrong = [];
for (const v of vectors) {
  const header = v.secrets.map((s) => "v1=" + mac(s, v.timestamp, v.body).toString("hex")).join(",");
  if (header !== v.signature) wrong.push(`${v.name}: ${header}`);
}
for (const c of checks) {
  if (accepts(c) !== c.accepted) wrong.push(`${c.name}: accepted is not ${c.accepted}`);
}
for (const line of wrong) console.error(line);
console.log(`${vectors.length} vectors, ${checks.length} checks, ${wrong.length} wrong`);
process.exit(wrong.length > 0 || vectors.length === 0 || checks.length === 0 ? 1 : 0);
