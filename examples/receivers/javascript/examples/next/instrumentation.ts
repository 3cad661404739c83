/**
 * Next.js calls this when the server starts, so that events left by a previous process are handled.
 */
export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME === "nodejs") {
    const { shop } = await import("./shop");
    shop();
  }
}
