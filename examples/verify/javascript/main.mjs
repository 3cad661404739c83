// Checks requests that were kept as files: node main.mjs SECRET KEYS FILE…
import { readFileSync } from "node:fs";
import { verify, verifyPublicly } from "./verify.mjs";

const [secret, keys, ...files] = process.argv.slice(2);
for (const file of files) {
  const request = readFileSync(file);
  const end = request.indexOf("\r\n\r\n");
  const lines = request.subarray(0, end).toString().split("\r\n").slice(1);
  const headers = Object.fromEntries(
    lines.map((line) => line.split(": ", 2)).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const body = request.subarray(end + 4);
  say(file, "v1", () => verify(secret, body, headers));
  say(file, "v1a", () => verifyPublicly(keys.split(","), body, headers));
}

function say(file, version, check) {
  try {
    check();
    console.log(file, version, "verified");
  } catch (error) {
    console.log(file, version, "refused:", error.message);
  }
}
