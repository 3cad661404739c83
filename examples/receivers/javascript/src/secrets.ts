import { readFileSync } from "node:fs";

const secretForm = /^whsec_[A-Za-z0-9+/=_-]+$/;

/** The secrets of an endpoint, or what gives them: it is asked at each webhook. */
export type Secrets = readonly string[] | (() => readonly string[]);

/**
 * Throws a TypeError unless they are secrets of an endpoint, and one at least. Who has the secret
 * of a receiver can forge: one that is empty, or a letter, is everybody's.
 */
export function checkSecrets(secrets: readonly string[]): void {
  if (!Array.isArray(secrets)) throw new TypeError("the secrets must be an array of strings");
  if (secrets.length === 0) throw new TypeError("there is no secret");
  if (!secrets.every((secret) => typeof secret === "string" && secretForm.test(secret))) {
    throw new TypeError("a secret must be the endpoint's whole secret, which starts with whsec_");
  }
}

/**
 * The secrets in a file, one a line, as `lumenhook endpoints create --secret-out` writes it. It is
 * read again as webhooks come, once a second at most, so that a rotation needs no restart. Where
 * it cannot be read, or has no secret, the secrets of before stay.
 */
export function secretsFromFile(path: string, nowMillis = Date.now): () => readonly string[] {
  const read = () => {
    const secrets = readFileSync(path, "utf8").split(/\s+/).filter((secret) => secret !== "");
    checkSecrets(secrets);
    return secrets;
  };
  let secrets = read();
  let readAt = nowMillis();
  return () => {
    const now = nowMillis();
    if (Math.abs(now - readAt) < 1000) return secrets;
    readAt = now;
    try {
      secrets = read();
    } catch (error) {
      console.error(`the secrets of before stay, because ${path} is of no use:`, String(error));
    }
    return secrets;
  };
}
