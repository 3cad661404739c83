// A receiver with Express: node examples/express.js
import express from "express";
import { maxBodyBytes } from "lumenhook-receiver";
import { listening, openShop, port } from "./shop.js";

const { receiver, processed } = openShop();
const app = express();

// Reads the raw body before the application's parsers. Rejects bodies that are too large or
// compressed.
const raw = express.raw({ type: () => true, limit: maxBodyBytes, inflate: false });

app.post("/webhooks", raw, (request, response) => {
  const answer = receiver.receive(request.headers, request.body ?? Buffer.alloc(0));
  response.status(answer.status).type("text").send(answer.text);
});
app.all("/webhooks", (_request, response) => response.sendStatus(405));
app.get("/processed", (_request, response) => response.json(processed()));

app.use((error, _request, response, _next) => response.sendStatus(error.status ?? 500));
app.listen(port, "127.0.0.1", listening);
