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
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    ignoreHTTPSErrors: true, // the certificate is of an authority that the test made
  });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  const cookies = [];
  page.on("response", async (r) => {
    if (r.url().includes("/portal/link")) cookies.push(r.headerValue("set-cookie"));
  });
  await page.goto(site, { waitUntil: "load" });
  return { context, page, frame: page.frames()[1], cookies };
}

// accessible holds a page against axe-core.
async function accessible(frame, name) {
  await frame.evaluate(axe);
  const found = await frame.evaluate(async () =>
    (await window.axe.run(document)).violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")));
  assert.deepEqual(found, [], name);
}

// The shop's page shows the portal, which is used in its frame.
const { context, page, frame, cookies } = await opened(on.shop);
const press = (name) => frame.getByRole("button", { name, exact: true }).click();
await frame.getByRole("heading", { name: "Overview", exact: true }).waitFor();
assert.equal(frame.url(), on.api + "/portal");
// Browsers take it from a frame of another site because of each of these.
const [, cookie] = (await cookies[0]).match(/^([^=]+=)/) ?? [];
assert.equal(cookie, on.secure ? "__Host-lumenhook-portal=" : "lumenhook-portal=");
for (const part of ["; HttpOnly", "; Secure", "; SameSite=None", "; Partitioned"]) {
  assert.ok((await cookies[0]).includes(part), part);
}
// It is kept for this site's frames: in a window of its own the portal is not open.
const alone = await context.newPage();
assert.equal((await alone.goto(on.api + "/portal")).status(), 403);
await alone.close();
for (const name of ["Events", "Watches", "Endpoints"]) {
  await frame.getByRole("link", { name, exact: true }).click();
  await frame.getByRole("heading", { name, exact: true }).waitFor();
  await accessible(frame, name);
}
// A link of something else, which any page can send the frame to, does not replace what is open.
await page.evaluate((to) => { document.querySelector("iframe").src = to; }, on.narrow);
await frame.getByRole("heading", { name: "Another part of the account is open" }).waitFor();
await accessible(frame, "another link");
await page.screenshot({ path: path.join(on.pictures, "portal-other.png") });
await frame.getByRole("link", { name: "stay in the current portal" }).click();
await frame.getByRole("link", { name: "Endpoints", exact: true }).click();
await frame.getByRole("link", { name: on.endpoint }).click();
await press("Disable");
await frame.getByText("Its deliveries are held until you enable it.").waitFor();
await page.screenshot({ path: path.join(on.pictures, "portal-framed.png") });
await press("Enable");
await frame.getByText("Endpoint enabled. Pending deliveries are being sent.").waitFor();
await press("Close");
await frame.getByRole("heading", { name: "The portal is closed" }).waitFor();
await page.screenshot({ path: path.join(on.pictures, "portal-closed.png") });

// A page that the operator has not named shows no portal, though it has a link; and none the console,
// which the guard of the port refuses before its own policy would.
const stranger = await opened(on.stranger);
await stranger.frame.waitForURL(/^chrome-error:/, { waitUntil: "commit" });
const guarded = await opened(on.shop + "console");
await guarded.frame.getByText("ORIGIN_NOT_ALLOWED").waitFor();
await browser.close();
