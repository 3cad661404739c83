import { readFileSync } from "node:fs";

const secretForm = /^whsec_[A-Za-z0-9+/=_-]+$/;

/** The secrets of an endpoint, or a function that returns them. It is called for each webhook. */
export type Secrets = readonly string[] | (() => readonly string[]);

/**
 * Throws a TypeError unless there is at least one secret and all are valid. Anyone can sign with an
 * empty secret or guess a short one.
 */
export function checkSecrets(secrets: readonly string[]): void {
  if (!Array.isArray(secrets)) throw new TypeError("the secrets must be an array of strings");
  if (secrets.length === 0) throw new TypeError("there is no secret");
  if (!secrets.every((secret) => typeof secret === "string" && secretForm.test(secret))) {
    throw new TypeError("a secret must be the endpoint's complete secret, starting with whsec_");
  }
}

/**
 * Returns the secrets in a file, one per line, as `lumenhook endpoints create --secret-out` writes
 * it. It picks up changes of the file when webhooks arrive, at most once per second, so a rotation
 * needs no restart. If the file can't be read or has no secret, the previous secrets stay in use.
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
      console.error(`cannot use ${path}; keeping the previous secrets:`, String(error));
    }
    return secrets;
  };
}
