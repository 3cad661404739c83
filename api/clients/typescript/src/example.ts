// Registers an endpoint, watches a wallet, and lists the wallet's events: node build/example.js G…
import { createClient } from "./index.js";

const [wallet = ""] = process.argv.slice(2);
const client = createClient({
  apiUrl: process.env["LUMENHOOK_API"] ?? "http://127.0.0.1:8080",
  key: process.env["LUMENHOOK_KEY"] ?? "",
});

/** The data of an answer; a problem ends the program with what it says. */
function dataOf<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const endpoint = dataOf(
  await client.POST("/v1/endpoints", {
    body: { url: "https://shop.example/webhooks", description: "from TypeScript" },
  }),
);
console.log("endpoint", endpoint.id, "whose secret is shown once:", endpoint.secret.length, "long");

const watch = dataOf(
  await client.POST("/v1/watches", {
    body: {
      walletAddress: wallet,
      endpointId: endpoint.id,
      assets: [{ code: "XLM" }],
      label: "from TypeScript",
    },
  }),
);
console.log("watch", watch.id);

const query = { walletAddress: wallet, limit: 10 };
const events = dataOf(await client.GET("/v1/events", { params: { query } }));
for (const event of events.data) console.log("event", event.id, event.type);

const { error } = await client.GET("/v1/endpoints/{id}", { params: { path: { id: "ep_none" } } });
console.log("problem", error?.code);
