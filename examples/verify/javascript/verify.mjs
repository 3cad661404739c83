import { createPublicKey, verify as verifySignature } from "node:crypto";
import { Webhook } from "standardwebhooks";

// Checks v1 with the endpoint's secret, whsec_…. The body is what was received, as a Buffer.
export function verify(secret, body, headers) {
  new Webhook(secret).verify(body, headers);
}

// Checks v1a with the x of each key of your endpoint, which are at
// /.well-known/endpoints/ENDPOINT_ID/jwks.json.
export function verifyPublicly(keys, body, headers) {
  const sent = headers["webhook-timestamp"];
  if (!/^\d{1,12}$/.test(sent) || Math.abs(Date.now() / 1000 - Number(sent)) > 300) {
    throw new Error("the timestamp is too far from the clock");
  }
  const message = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${sent}.`), body]);
  const entries = headers["webhook-signature"].split(" ").filter((e) => e.startsWith("v1a,"));
  for (const x of keys) {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    for (const entry of entries) {
      if (verifySignature(null, message, key, Buffer.from(entry.slice(4), "base64"))) return;
    }
  }
  throw new Error("no signature matches");
}
