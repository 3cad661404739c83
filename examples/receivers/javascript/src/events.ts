/**
 * The body of a webhook, after the JSON Schemas of schemas/events: what `data` holds depends on
 * `type`. There may be other types one day, and other fields: pass over what you do not know.
 */
export interface LumenhookEvent {
  id: string;
  type:
    | "payment.received"
    | "payment.rejected"
    | "test.ping"
    | "endpoint.failing"
    | "endpoint.disabled"
    | (string & {});
  apiVersion: string;
  /** ISO 8601, UTC. */
  createdAt: string;
  data: unknown;
}

/** The data of payment.received and payment.rejected. */
export interface PaymentData {
  payment: Payment;
  watch: Watch;
  verification: Verification;
}

/** A payment of the Stellar network. */
export interface Payment {
  id: string;
  txHash: string;
  ledger: number;
  /** ISO 8601, UTC. */
  ledgerClosedAt: string;
  from: string;
  to: string;
  toMuxedId: string | null;
  memo: string | null;
  memoType: "text" | "id" | "hash" | "return" | null;
  asset: Asset;
  /** In units, with 7 digits after the point. */
  amount: string;
  /** The same as an integer: compute with BigInt of this. */
  amountStroops: string;
}

/** What was paid. The issuer is null for XLM, the network's own. */
export interface Asset {
  code: string;
  issuer: string | null;
}

/** The watch that the payment matched. */
export interface Watch {
  id: string;
  label: string;
  walletAddress: string;
}

/** How the payment did by the rules of the watch, with every reason against it. */
export interface Verification {
  outcome: "VERIFIED" | "REJECTED";
  reasons: Reason[];
}

/** Why a payment was rejected. */
export type Reason =
  | "ASSET_NOT_ACCEPTED"
  | "AMOUNT_MISMATCH"
  | "AMOUNT_TOO_LOW"
  | "AMOUNT_TOO_HIGH"
  | "MEMO_REQUIRED"
  | "MEMO_NOT_ALLOWED"
  | "MEMO_TYPE_MISMATCH"
  | "MEMO_MISMATCH"
  | "SENDER_NOT_ALLOWED";

/** The data of test.ping. */
export interface PingData {
  endpoint: Endpoint;
}

/** The data of endpoint.failing: another endpoint, whose notices come here, takes nothing. */
export interface FailingData {
  endpoint: Endpoint;
  /** ISO 8601, UTC. */
  failingSince: string;
  failedAttempts: number;
  lastAttempt: LastAttempt;
}

/** The data of endpoint.disabled: nothing is sent any more to another, whose notices come here. */
export interface DisabledData {
  endpoint: Endpoint;
  reason: "gone" | "consecutive_failures";
  /** ISO 8601, UTC. */
  disabledAt: string;
  lastAttempt: LastAttempt;
}

/** The endpoint that an event is about, as it was when the event was made. */
export interface Endpoint {
  id: string;
  url: string;
  description: string;
}

/** What the endpoint's receiver answered last. Without a status there is an error. */
export interface LastAttempt {
  eventId: string;
  statusCode: number | null;
  error: string | null;
}

/** Reads a body: one JSON object in UTF-8 with the fields of every event. */
export function parseEvent(body: Uint8Array): LumenhookEvent {
  let value: unknown;
  try {
    // A byte order mark is left in, so that it is refused as JSON refuses it.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    throw new TypeError("the body is not JSON in UTF-8");
  }
  if (!isEvent(value)) throw new TypeError("the body is no event");
  return value as LumenhookEvent;
}

/** The data of payment.received or payment.rejected. */
export function paymentOf(event: LumenhookEvent): PaymentData {
  if (!isPaymentData(event.data)) throw new TypeError(`the data of ${event.id} is of no payment`);
  return event.data as PaymentData;
}

/**
 * Whether the payment is a sample (`lumenhook endpoints test --type payment.received`), which
 * nobody paid: credit nothing for it.
 */
export function isSample(data: PaymentData): boolean {
  return data.watch.id === "wat_00000000000000000000000000"; // which no watch has
}

/** The data of test.ping. */
export function pingOf(event: LumenhookEvent): PingData {
  if (!isPingData(event.data)) throw new TypeError(`the data of ${event.id} is of no ping`);
  return event.data as PingData;
}

/** The data of endpoint.failing. */
export function failingOf(event: LumenhookEvent): FailingData {
  if (!isFailingData(event.data)) throw new TypeError(`the data of ${event.id} is of no failing`);
  return event.data as FailingData;
}

/** The data of endpoint.disabled. */
export function disabledOf(event: LumenhookEvent): DisabledData {
  if (!isDisabledData(event.data)) throw new TypeError(`the data of ${event.id} is of no disabling`);
  return event.data as DisabledData;
}

// What is checked while the program runs. The compiler holds each table to have every field of
// its type.
type Check = (value: unknown) => boolean;
type Fields<T> = Record<keyof T, Check>;

const text: Check = (value) => typeof value === "string";
const name: Check = (value) => typeof value === "string" && value !== "";
const textOrNull: Check = (value) => value === null || typeof value === "string";
const integer: Check = Number.isSafeInteger;
const integerOrNull: Check = (value) => value === null || integer(value);
const digits: Check = (value) => typeof value === "string" && /^[0-9]+$/.test(value);
const texts: Check = (value) => Array.isArray(value) && value.every(text);

function object<T>(fields: Fields<T>): Check {
  const checks = Object.entries<Check>(fields);
  return (value) =>
    typeof value === "object" &&
    value !== null &&
    checks.every(([field, holds]) => holds((value as Record<string, unknown>)[field]));
}

const isEvent = object<LumenhookEvent>({
  id: name,
  type: name,
  apiVersion: text,
  createdAt: text,
  data: (value) => typeof value === "object" && value !== null,
});

const isPaymentData = object<PaymentData>({
  payment: object<Payment>({
    id: name,
    txHash: text,
    ledger: integer,
    ledgerClosedAt: text,
    from: text,
    to: text,
    toMuxedId: textOrNull,
    memo: textOrNull,
    memoType: textOrNull,
    asset: object<Asset>({ code: text, issuer: textOrNull }),
    amount: text,
    amountStroops: digits,
  }),
  watch: object<Watch>({ id: text, label: text, walletAddress: text }),
  verification: object<Verification>({ outcome: text, reasons: texts }),
});

const endpoint = object<Endpoint>({ id: text, url: text, description: text });
const lastAttempt = object<LastAttempt>({
  eventId: text,
  statusCode: integerOrNull,
  error: textOrNull,
});

const isPingData = object<PingData>({ endpoint });

const isFailingData = object<FailingData>({
  endpoint,
  failingSince: text,
  failedAttempts: integer,
  lastAttempt,
});

const isDisabledData = object<DisabledData>({
  endpoint,
  reason: text,
  disabledAt: text,
  lastAttempt,
});
