import { createHmac, timingSafeEqual } from "node:crypto";
import { types } from "node:util";
import { checkSecrets } from "./secrets.js";

const toleranceSeconds = 300;

// Written out, because Number and Buffer.from take more: signs, fractions, hex with a tail.
const timestampForm = /^[0-9]{1,12}$/;
const signatureForm = /^v1=([0-9a-fA-F]{64})$/;

/** The webhook was not signed by a secret of yours, or not now. */
export class SignatureError extends Error {}

/** What is said of a body that is no bytes: text that is made of it again has other bytes. */
export const parsedBefore =
  "the body must be the raw bytes of the request; something has parsed it before";

/** What is signed, and by what. */
export interface Signed {
  /** The value of Webhook-Timestamp. */
  timestamp: string;
  /** The value of Webhook-Signature. */
  signature: string;
  /** What was received, byte for byte. */
  body: Uint8Array;
}

/**
 * Checks that one of the secrets (whsec_…, whole) signed the body within 300 seconds of now;
 * throws a SignatureError. Several secrets are for the time after a rotation.
 */
export function verify(signed: Signed, secrets: readonly string[], nowMillis = Date.now()): void {
  checkSecrets(secrets);
  const { timestamp, signature, body } = signed;
  if (!types.isUint8Array(body)) throw new TypeError(parsedBefore);
  if (!timestampForm.test(timestamp)) {
    throw new SignatureError("Webhook-Timestamp is missing or malformed");
  }
  if (Math.abs(Math.floor(nowMillis / 1000) - Number(timestamp)) > toleranceSeconds) {
    throw new SignatureError("Webhook-Timestamp is more than 300 seconds from the clock");
  }
  // Entries of other kinds may stand beside: they are passed over.
  const given = signature
    .split(",")
    .map((entry) => signatureForm.exec(entry.trim())?.[1])
    .filter((hex) => hex !== undefined)
    .map((hex) => Buffer.from(hex, "hex"));
  for (const secret of secrets) {
    const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest();
    if (given.some((each) => timingSafeEqual(each, expected))) return;
  }
  throw new SignatureError("no signature in Webhook-Signature matches the body and a secret");
}
