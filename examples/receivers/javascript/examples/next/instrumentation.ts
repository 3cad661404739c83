/** Next.js calls it when the server starts: events that a process before left are processed. */
export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME === "nodejs") {
    const { shop } = await import("./shop");
    shop();
  }
}
