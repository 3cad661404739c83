// A receiver with Fastify: node examples/fastify.js
import Fastify from "fastify";
import { maxBodyBytes } from "lumenhook-receiver";
import { listening, openShop, port } from "./shop.js";

const { receiver, processed } = openShop();
const app = Fastify();

// Reads the raw body, in its own scope, so that other routes keep their parsers.
app.register(async (hooks) => {
  hooks.removeAllContentTypeParsers();
  const asItIs = (_request, body, done) => done(null, body);
  hooks.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: maxBodyBytes }, asItIs);
  hooks.post("/webhooks", async (request, reply) => {
    const body = request.body ?? Buffer.alloc(0);
    const answer = receiver.receive(request.headers, body);
    return reply.code(answer.status).type("text/plain").send(answer.text);
  });
  hooks.get("/webhooks", async (_request, reply) => reply.code(405).send());
});
app.get("/processed", async () => processed());

app.listen({ port, host: "127.0.0.1" }, listening);
