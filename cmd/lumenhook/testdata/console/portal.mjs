// A merchant at the portal, in a frame of their shop's page, in Chromium. It ends with an error at
// the first thing that is not as it should be.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const on = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: on.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

// opened is a page of a site, with the frame in it that shows the portal, or does not.
async function opened(site) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  await page.goto(site, { waitUntil: "load" });
  return { context, page, frame: page.frames()[1] };
}

// The shop's page shows the portal, which is used in its frame.
const { context, page, frame } = await opened(on.shop);
const press = (name) => frame.getByRole("button", { name, exact: true }).click();
await frame.getByRole("heading", { name: "Overview", exact: true }).waitFor();
assert.equal(frame.url(), on.api + "/portal");
// The cookie is kept for this site's frames: the API's own pages do not have it.
assert.equal((await context.cookies(on.api)).length, 0);
for (const name of ["Events", "Watches", "Endpoints"]) {
  await frame.getByRole("link", { name, exact: true }).click();
  await frame.getByRole("heading", { name, exact: true }).waitFor();
  await frame.evaluate(axe);
  const found = await frame.evaluate(async () =>
    (await window.axe.run(document)).violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")));
  assert.deepEqual(found, [], name);
}
await frame.getByRole("link", { name: on.endpoint }).click();
await press("Disable");
await frame.getByText("Its deliveries wait until it is enabled.").waitFor();
await page.screenshot({ path: path.join(on.pictures, "portal-framed.png") });
await press("Enable");
await frame.getByText("What waited is sent now.").waitFor();
await press("Close");
await frame.getByRole("heading", { name: "Not open any more" }).waitFor();
await page.screenshot({ path: path.join(on.pictures, "portal-closed.png") });

// A page that the operator has not named shows no portal, though it has a link; and none the console,
// which the guard of the port refuses before its own policy would.
const stranger = await opened(on.stranger);
assert.match(stranger.frame.url(), /^chrome-error:/);
const guarded = await opened(on.shop + "console");
assert.match(await guarded.frame.content(), /ORIGIN_NOT_ALLOWED/);
await browser.close();
