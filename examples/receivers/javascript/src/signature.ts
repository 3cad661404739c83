import { createHmac, timingSafeEqual } from "node:crypto";
import { types } from "node:util";
import { checkSecrets } from "./secrets.js";

const toleranceSeconds = 300;

// Number and Buffer.from also accept signs, fractions, and hex with trailing characters.
const timestampForm = /^[0-9]{1,12}$/;
const signatureForm = /^v1=([0-9a-fA-F]{64})$/;

/** The signature is missing, wrong, or too old. */
export class SignatureError extends Error {}

/** The error for a body that isn't bytes. Serializing parsed JSON again gives other bytes. */
export const parsedBefore =
  "the body must be the raw bytes of the request; something has parsed it already";

/** A signed body and its signature headers. */
export interface Signed {
  /** The value of Webhook-Timestamp. */
  timestamp: string;
  /** The value of Webhook-Signature. */
  signature: string;
  /** The received bytes, unchanged. */
  body: Uint8Array;
}

/**
 * Checks that one of the complete secrets (whsec_…) signed the body within 300 seconds of now.
 * Throws a SignatureError if not. Pass several secrets after a rotation.
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
  // Skip signatures of other kinds.
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
