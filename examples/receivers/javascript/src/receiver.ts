import { types } from "node:util";
import { type LumenhookEvent, parseEvent } from "./events.js";
import type { Inbox } from "./inbox.js";
import { checkSecrets, type Secrets } from "./secrets.js";
import { parsedBefore, SignatureError, verify } from "./signature.js";

/** Events are smaller than 4 KB. Read no more than this, and respond with 413 to larger bodies. */
export const maxBodyBytes = 65_536;

/** A status, and a line of text with the reason. */
export interface Answer {
  status: number;
  text: string;
}

/** Returns the value of a header. Joins repeated headers with commas. */
export type HeaderValue = (name: string) => string | null | undefined;

/** The headers of a request: a function, a Headers, or an object. Case doesn't matter. */
export type RequestHeaders =
  | HeaderValue
  | { get(name: string): string | null | undefined }
  | { readonly [name: string]: string | readonly string[] | undefined };

/**
 * Checks and records webhooks. It responds with 200 if the event is recorded now or was recorded
 * before, with 503 if it could not be recorded, so that the service retries, and with 4xx if the
 * request is not a webhook of the service.
 */
export class Receiver {
  readonly #secrets: () => readonly string[];
  readonly #inbox: Pick<Inbox, "record">;

  /** Pass the endpoint's complete secrets (whsec_…). There are several after a rotation. */
  constructor(secrets: Secrets, inbox: Pick<Inbox, "record">) {
    const given = typeof secrets === "function" ? secrets() : secrets;
    checkSecrets(given);
    const kept = [...given];
    this.#secrets = typeof secrets === "function" ? secrets : () => kept;
    this.#inbox = inbox;
  }

  /** The body must be the received bytes, unchanged. */
  receive(headers: RequestHeaders, body: Uint8Array): Answer {
    const answer = this.#receive(headerOf(headers), body);
    if (answer.status !== 200) {
      console.warn(`rejected a webhook: ${answer.status}, ${answer.text}`);
    }
    return answer;
  }

  #receive(header: HeaderValue, body: Uint8Array): Answer {
    if (!types.isUint8Array(body)) return { status: 500, text: parsedBefore };
    if (!isPlainJSON(header)) {
      return { status: 415, text: "a webhook is application/json in UTF-8, not compressed" };
    }
    if (body.length > maxBodyBytes) return { status: 413, text: "the body is too large" };
    let secrets: readonly string[];
    try {
      secrets = this.#secrets();
      checkSecrets(secrets);
    } catch (error) {
      console.error("the secrets could not be read:", error);
      return { status: 503, text: "the secrets could not be read; send it again" };
    }
    const timestamp = header("webhook-timestamp") ?? "";
    const signature = header("webhook-signature") ?? "";
    let event: LumenhookEvent;
    try {
      verify({ timestamp, signature, body }, secrets);
      event = parseEvent(body);
    } catch (error) {
      const status = error instanceof SignatureError ? 401 : 400;
      return { status, text: (error as Error).message };
    }
    // The body is signed, but this header is not. Anyone with a recorded webhook could send it
    // again under other ids.
    if (header("webhook-id") !== event.id) {
      return { status: 400, text: "Webhook-Id differs from the id in the body" };
    }
    try {
      const isNew = this.#inbox.record(event.id, body);
      return { status: 200, text: isNew ? "recorded" : "recorded before" };
    } catch (error) {
      console.error(`${event.id} could not be recorded:`, error);
      return { status: 503, text: "the event could not be recorded; send it again" };
    }
  }
}

/** Returns headers by lower-case name. */
function headerOf(headers: RequestHeaders): HeaderValue {
  if (typeof headers === "function") return headers;
  const { get } = headers;
  if (typeof get === "function") return (name) => get.call(headers, name);
  return (name) => {
    const own = Object.entries(headers).filter(([given]) => given.toLowerCase() === name);
    return own.length === 0 ? undefined : own.flatMap(([, value]) => value ?? []).join(",");
  };
}

/** Whether the body is uncompressed JSON in UTF-8. */
function isPlainJSON(header: HeaderValue): boolean {
  const [kind, ...parameters] = (header("content-type") ?? "").toLowerCase().split(";");
  const charsets = parameters
    .map((parameter) => parameter.trim())
    .filter((parameter) => parameter.startsWith("charset="));
  return (
    kind?.trim() === "application/json" &&
    charsets.every((charset) => /^charset="?utf-8"?$/.test(charset)) &&
    (header("content-encoding") || "identity").toLowerCase() === "identity"
  );
}
