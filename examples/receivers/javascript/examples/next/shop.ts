import { openShop } from "../shop.js";

type Shop = ReturnType<typeof openShop>;
const kept = globalThis as typeof globalThis & { shop?: Shop };

/** One in a process: Next.js loads a module once for each route. */
export function shop(): Shop {
  return (kept.shop ??= openShop());
}
