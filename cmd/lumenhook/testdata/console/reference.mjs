// A developer reads the API reference in Chromium: in light and in dark, on a wide and a narrow
// screen. Axe finds no fault, the page loads nothing from another host and breaks no policy. The
// developer searches by keyboard and, if a service serves the page (on.key), tries operations.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const on = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const base = on.reference.replace(/(schemas\/)?docs(\.html)?$/, "");
const faults = [];
mkdirSync(on.pictures, { recursive: true });

const browser = await chromium.launch({
  executablePath: on.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"],
});

async function opened(colorScheme, width) {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: width < 500 ? 844 : 900 } });
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (e) => faults.push(`an error of a script: ${e}`));
  page.on("console", (m) => { if (/Content Security Policy|Refused/.test(m.text())) faults.push(m.text()); });
  page.on("request", (r) => {
    if (!r.url().startsWith(base) && !/^(blob|data):/.test(r.url())) faults.push(`it loads ${r.url()}`);
  });
  await page.goto(on.reference);
  await page.getByRole("main").waitFor();
  await page.evaluate(axe);
  return page;
}

async function looked(page, name, part = "html") {
  const { passed, found } = await page.evaluate(async (part) => {
    const r = await axe.run(part, { preload: false });
    return { passed: r.passes.length, found: r.violations.map((v) => `${v.id}: ${v.help} ${v.nodes[0].html}`) };
  }, part);
  assert.ok(passed > 10, `axe applied ${passed} rules to ${name}`);
  for (const v of found) faults.push(`${name}: ${v}`);
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  if (wide > 0) faults.push(`${name} is ${wide} px wider than its screen`);
  await page.screenshot({ path: path.join(on.pictures, `reference-${name}.png`) });
}

// read opens what is folded: answers, nested fields and the languages of the samples.
async function read(colorScheme, width) {
  const page = await opened(colorScheme, width);
  const name = `${colorScheme}-${width}`;
  await looked(page, name);
  if ((colorScheme === "dark") !== (width < 500)) return page.close(); // the others show the same
  const opens = page.locator(".api-content button[aria-expanded=false], .api-content button:not(.try):has(svg)");
  assert.ok(await opens.count() > 100, "answers fold");
  await opens.evaluateAll((all) => all.slice(0, 15).forEach((one) => one.click()));
  await page.locator("caption").first().waitFor();
  const watch = page.locator('[id="tag/Watches/operation/createWatch"]');
  await watch.scrollIntoViewIfNeeded();
  for (const language of ["curl", "JavaScript", "Python", "Go", "Java", "Rust"]) {
    await watch.getByRole("tab", { name: language, exact: true }).click();
    await watch.getByText("LUMENHOOK_API").waitFor();
    if (width > 500) await looked(page, `${name}-${language}`, '[id="tag/Watches/operation/createWatch"]');
  }
  await looked(page, `${name}-open`, ".api-content");
  await page.close();
}

async function searched() {
  const page = await opened("light", 1440);
  await page.keyboard.press("Tab");
  while (!(await page.evaluate(() => document.activeElement.matches(".search-input")))) await page.keyboard.press("Tab");
  await page.keyboard.type("rotate", { delay: 20 });
  await page.locator("[data-role='search:results'] li").first().waitFor();
  await looked(page, "search", ".menu-content");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.hash.includes("/operation/rotate"));
  await page.keyboard.press("Escape");
  const menu = page.getByRole("menuitem", { name: "Watches", exact: true });
  await menu.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.hash.endsWith("tag/Watches"));
  await page.close();
}

// tried sends requests to the service with the developer's key, which the page does not store.
async function tried() {
  const page = await opened("light", 1440);
  const answer = page.locator("#try pre");
  const open = async (operation) => {
    await page.getByRole("button", { name: `Try it: ${operation}`, exact: true }).focus();
    await page.keyboard.press("Enter");
  };
  await open("List endpoints");
  await page.keyboard.press("Enter"); // in the field of the key
  await answer.getByText("UNAUTHENTICATED").waitFor();
  await page.getByLabel("API key (stays in this page)").fill(on.key);
  await page.keyboard.press("Enter");
  await answer.getByText(/^200 OK/).waitFor();
  await looked(page, "try", "#try");
  await page.keyboard.press("Escape");
  await open("Register an endpoint");
  await page.getByLabel("Body").fill(`{"url": "https://shop.example/tried"}`);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await answer.getByText(/^201 Created/).waitFor();
  const id = /"id": "(ep_\w+)"/.exec(await answer.textContent())[1];
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await open("Retrieve an endpoint");
  await page.getByLabel("id (path, required)").fill(id);
  await page.keyboard.press("Enter");
  await answer.getByText("https://shop.example/tried").waitFor();
  const stored = await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length);
  assert.equal(stored, 0, "the page stores something");
  assert.ok(!page.url().includes(on.key));
  await page.close();
}

for (const width of on.brief ? [1440] : [1440, 390]) await Promise.all(["light", "dark"].map((colors) => read(colors, width)));
await searched();
if (on.key) await tried();
else assert.equal(await (await opened("light", 1440)).getByText("Try it", { exact: true }).count(), 0);
await browser.close();
assert.equal(faults.length, 0, faults.join("\n"));
