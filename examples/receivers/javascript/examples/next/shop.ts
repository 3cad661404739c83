import { openShop } from "../shop.js";

type Shop = ReturnType<typeof openShop>;
const kept = globalThis as typeof globalThis & { shop?: Shop };

/** One per process, because Next.js loads a module once per route. */
export function shop(): Shop {
  return (kept.shop ??= openShop());
}
