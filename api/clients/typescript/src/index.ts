import createFetchClient, { type Client } from "openapi-fetch";
import type { paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

/** Where a service is, and who calls it. */
export interface Access {
  /** Such as https://hooks.example. */
  apiUrl: string;
  /** An API key, whk_… */
  key: string;
}

/**
 * A client of the API. Each call answers with `data`, or with `error`, a problem as RFC 9457 has
 * them:
 *
 *     const { data, error } = await client.GET("/v1/events", { params: { query: { limit: 10 } } });
 */
export function createClient({ apiUrl, key }: Access): Client<paths> {
  return createFetchClient<paths>({
    baseUrl: apiUrl.replace(/\/+(v1\/*)?$/, ""), // the paths begin with /v1
    headers: { Authorization: `Bearer ${key}` },
  });
}
