// Reads the site in Chromium: on a wide and a narrow screen, in light and in dark. Axe finds no
// fault, no page is wider than its screen, and none loads anything from another host. Then it
// searches, by the server and from a folder. It lists every fault that it found.
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
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"],
});

async function open(base, name, colorScheme, width) {
  const page = await browser.newPage({ colorScheme, viewport: { width, height: width < 500 ? 844 : 900 } });
  const where = `${name} (${colorScheme}, ${width})`;
  page.on("pageerror", (e) => faults.push(`${where}: a script failed: ${e}`));
  page.on("request", (r) => {
    if (!r.url().startsWith(base) && !/^(blob|data):/.test(r.url())) faults.push(`${where}: it loads ${r.url()}`);
  });
  await page.goto(`${base}/${name}`);
  return page;
}

async function looked(name, colorScheme, width) {
  const page = await open(on.site, name, colorScheme, width);
  await page.evaluate(axe);
  const { passed, found } = await page.evaluate(async () => {
    const r = await axe.run(document, { preload: false });
    return { passed: r.passes.length, found: r.violations.map((v) => `${v.id}: ${v.help} ${v.nodes[0].html}`) };
  });
  assert.ok(passed > 10, `axe applied ${passed} rules to ${name}`);
  for (const v of found) faults.push(`${name} (${colorScheme}, ${width}): ${v}`);
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  if (wide > 0) faults.push(`${name} is ${wide} px wider than a screen of ${width}`);
  const picture = `${name.replaceAll("/", "_")}-${colorScheme}-${width}.png`;
  await page.screenshot({ path: path.join(on.pictures, picture) });
  await page.close();
}

// searched finds a section by keyboard and opens it.
async function searched(base) {
  const page = await open(base, "docs/index.html", "light", 1440);
  const from = new URL(page.url()).pathname;
  await page.keyboard.press("/");
  await page.keyboard.type("secret rotation", { delay: 20 });
  await page.locator(".md-search-result__item a").first().waitFor();
  await page.screenshot({ path: path.join(on.pictures, "search.png") });
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname !== from);
  await page.close();
}

// drawn waits for a state diagram, which Mermaid draws in the browser.
async function drawn() {
  const page = await open(on.site, "docs/state-machines.html", "dark", 390);
  await page.locator("div.mermaid").first().waitFor();
  await page.screenshot({ path: path.join(on.pictures, "diagram.png") });
  await page.close();
}

for (const name of on.pages) {
  await Promise.all(screens.map(([colorScheme, width]) => looked(name, colorScheme, width)));
}
await searched(on.site);
await searched(on.folder);
await drawn();
await browser.close();
assert.equal(faults.length, 0, faults.join("\n"));
