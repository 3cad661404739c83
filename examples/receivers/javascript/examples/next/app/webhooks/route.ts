import { maxBodyBytes } from "lumenhook-receiver";
import { shop } from "../../shop";

export async function POST(request: Request): Promise<Response> {
  const body = await readAtMost(request, maxBodyBytes + 1); // raw
  const answer = shop().receiver.receive(request.headers, body);
  return new Response(answer.text, { status: answer.status });
}

/** Reads a body up to a limit, because request.arrayBuffer() has none. */
async function readAtMost(request: Request, bytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of request.body ?? []) {
    parts.push(part);
    length += part.length;
    if (length >= bytes) break;
  }
  return Buffer.concat(parts);
}
