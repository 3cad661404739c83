import { shop } from "../../shop";

export const dynamic = "force-dynamic";

export function GET(): Response {
  return Response.json(shop().processed());
}
