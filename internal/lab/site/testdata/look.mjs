// The site in Chromium, on a wide and a narrow screen, in light and in dark: each page is held
// against axe's rules, none is wider than its screen, and none loads what its policy forbids. Then
// the search, the menu and the colour scheme are used by keyboard. It ends with an error that names
// everything that is not as it should be.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const on = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];
const screens = [["light", 1440], ["dark", 1440], ["light", 390], ["dark", 390]];
mkdirSync(on.pictures, { recursive: true });

const browser = await chromium.launch({
  executablePath: on.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

async function open(name, colorScheme, width) {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: width < 500 ? 844 : 900 } });
  const where = `${name} (${colorScheme}, ${width})`;
  page.on("pageerror", (e) => faults.push(`${where}: an error of a script: ${e}`));
  page.on("console", (m) => { if (m.type() === "error") faults.push(`${where}: ${m.text()}`); });
  page.on("request", (r) => { if (!r.url().startsWith(on.site)) faults.push(`${where}: it loads ${r.url()}`); });
  await page.goto(`${on.site}/${name}`);
  return page;
}

async function looked(name, colorScheme, width) {
  const page = await open(name, colorScheme, width);
  const client = await page.context().newCDPSession(page);
  await client.send("Runtime.evaluate", { expression: axe }); // the policy of the page forbids it to pages
  const { passed, found } = JSON.parse((await client.send("Runtime.evaluate", {
    expression: `axe.run(document, { preload: false }).then((r) => JSON.stringify({ passed: r.passes.length,
      found: r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes[0].html) }))`,
    awaitPromise: true, returnByValue: true,
  })).result.value);
  assert.ok(passed > 10, `axe looked at ${name} by ${passed} rules`);
  for (const v of found) faults.push(`${name} (${colorScheme}, ${width}): ${v}`);
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  if (wide > 0) faults.push(`${name} is ${wide} px wider than a screen of ${width}`);
  const picture = `${name.replaceAll("/", "_")}-${colorScheme}-${width}.png`;
  await page.screenshot({ path: path.join(on.pictures, picture) });
  await page.close();
}

// Somebody asks by keyboard, and goes to the first answer.
async function searched() {
  const page = await open("index.html", "light", 1440);
  const from = new URL(page.url()).pathname;
  await page.keyboard.press("/");
  await page.keyboard.type("secret rotation");
  await page.locator("#found li").first().waitFor();
  await page.screenshot({ path: path.join(on.pictures, "search.png") });
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname !== from);
  await page.keyboard.press("/");
  await page.keyboard.type("zzzz");
  await page.getByText("Nothing has “zzzz”.").waitFor();
  await page.close();
}

// The menu of a narrow screen opens, closes and leads somewhere; a scheme that was chosen stays.
async function turned() {
  const page = await open("receiving.html", "light", 390);
  const menu = page.getByRole("button", { name: "Menu" });
  await menu.press("Enter");
  await page.locator("#nav").waitFor();
  await page.screenshot({ path: path.join(on.pictures, "menu.png") });
  await page.keyboard.press("Escape");
  await page.locator("#nav").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Light or dark" }).click();
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.close();
}

for (const name of on.pages) {
  await Promise.all(screens.map(([colorScheme, width]) => looked(name, colorScheme, width)));
}
await searched();
await turned();
await browser.close();
assert.equal(faults.length, 0, faults.join("\n"));
