import { types } from "node:util";
import { type LumenhookEvent, parseEvent } from "./events.js";
import type { Inbox } from "./inbox.js";
import { checkSecrets, type Secrets } from "./secrets.js";
import { parsedBefore, SignatureError, verify } from "./signature.js";

/** An event has less than 4 KB. Read no more than this, and answer 413 to what has more. */
export const maxBodyBytes = 65_536;

/** A status, and a line of text that says why. */
export interface Answer {
  status: number;
  text: string;
}

/** The value of a header, its values joined by commas if it was sent several times. */
export type HeaderValue = (name: string) => string | null | undefined;

/** The headers of a request: a function, a Headers, or an object, whatever the case of names. */
export type RequestHeaders =
  | HeaderValue
  | { get(name: string): string | null | undefined }
  | { readonly [name: string]: string | readonly string[] | undefined };

/**
 * Checks and records webhooks. It answers 200 when the event is recorded, or was before; 503, so
 * that the service tries again, when it could not be; and 4xx to what is no event of the service.
 */
export class Receiver {
  readonly #secrets: () => readonly string[];
  readonly #inbox: Pick<Inbox, "record">;

  /** The secrets are the endpoint's, whole (whsec_…); several after a rotation. */
  constructor(secrets: Secrets, inbox: Pick<Inbox, "record">) {
    const given = typeof secrets === "function" ? secrets() : secrets;
    checkSecrets(given);
    const kept = [...given];
    this.#secrets = typeof secrets === "function" ? secrets : () => kept;
    this.#inbox = inbox;
  }

  /** The body is what was received, byte for byte. */
  receive(headers: RequestHeaders, body: Uint8Array): Answer {
    const answer = this.#receive(headerOf(headers), body);
    if (answer.status !== 200) {
      console.warn(`a webhook was not taken: ${answer.status}, ${answer.text}`);
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
      return { status: 503, text: "the secrets could not be read: send it again" };
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
    // The header is not signed, and the body is: who recorded a webhook could send it again under
    // other ids.
    if (header("webhook-id") !== event.id) {
      return { status: 400, text: "Webhook-Id is not the id of the body" };
    }
    try {
      const isNew = this.#inbox.record(event.id, body);
      return { status: 200, text: isNew ? "recorded" : "had before" };
    } catch (error) {
      console.error(`${event.id} could not be recorded:`, error);
      return { status: 503, text: "the event could not be recorded: send it again" };
    }
  }
}

/** Gets headers by their names in lower case. */
function headerOf(headers: RequestHeaders): HeaderValue {
  if (typeof headers === "function") return headers;
  const { get } = headers;
  if (typeof get === "function") return (name) => get.call(headers, name);
  return (name) => {
    const own = Object.entries(headers).filter(([given]) => given.toLowerCase() === name);
    return own.length === 0 ? undefined : own.flatMap(([, value]) => value ?? []).join(",");
  };
}

/** Whether the body is what its bytes say, and no form of it. */
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
