/**
 * The body of a webhook (schemas/events). The type of `data` depends on `type`. Ignore unknown
 * types and fields, because new ones may be added.
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

/** A payment on the Stellar network. */
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
  /** The same as an integer. Use BigInt(amountStroops) for arithmetic. */
  amountStroops: string;
}

/** The asset of a payment. The issuer is null for XLM, the native asset. */
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

/**
 * The result of checking the payment against the watch's rules, with every reason for a rejection.
 */
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

/** The data of endpoint.failing: another endpoint, which sends its notices here, is failing. */
export interface FailingData {
  endpoint: Endpoint;
  /** ISO 8601, UTC. */
  failingSince: string;
  failedAttempts: number;
  lastAttempt: LastAttempt;
}

/** The data of endpoint.disabled: another endpoint, which sends its notices here, was disabled. */
export interface DisabledData {
  endpoint: Endpoint;
  reason: "gone" | "consecutive_failures";
  /** ISO 8601, UTC. */
  disabledAt: string;
  lastAttempt: LastAttempt;
}

/** The endpoint that an event is about, as of the event's creation. */
export interface Endpoint {
  id: string;
  url: string;
  description: string;
}

/** The result of the last attempt at the endpoint. It has either a status or an error. */
export interface LastAttempt {
  eventId: string;
  statusCode: number | null;
  error: string | null;
}

/** Parses a body, which must be one JSON object in UTF-8 with the fields of every event. */
export function parseEvent(body: Uint8Array): LumenhookEvent {
  let value: unknown;
  try {
    // Keep a byte order mark, so that JSON.parse rejects it.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    throw new TypeError("the body is not JSON in UTF-8");
  }
  if (!isEvent(value)) throw new TypeError("the body is not an event");
  return value as LumenhookEvent;
}

/** The data of payment.received or payment.rejected. */
export function paymentOf(event: LumenhookEvent): PaymentData {
  if (!isPaymentData(event.data)) throw new TypeError(`${event.id} is not a payment`);
  return event.data as PaymentData;
}

/**
 * Whether the payment is a sample (`lumenhook endpoints test --type payment.received`). A sample is
 * not a real payment, so don't credit it.
 */
export function isSample(data: PaymentData): boolean {
  return data.watch.id === "wat_00000000000000000000000000"; // no watch has this id
}

/** The data of test.ping. */
export function pingOf(event: LumenhookEvent): PingData {
  if (!isPingData(event.data)) throw new TypeError(`${event.id} is not a test.ping`);
  return event.data as PingData;
}

/** The data of endpoint.failing. */
export function failingOf(event: LumenhookEvent): FailingData {
  if (!isFailingData(event.data)) throw new TypeError(`${event.id} is not an endpoint.failing`);
  return event.data as FailingData;
}

/** The data of endpoint.disabled. */
export function disabledOf(event: LumenhookEvent): DisabledData {
  if (!isDisabledData(event.data)) throw new TypeError(`${event.id} is not an endpoint.disabled`);
  return event.data as DisabledData;
}

// Checks at run time. The compiler requires each table to have every field of its type.
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
