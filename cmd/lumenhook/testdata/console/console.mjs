// A person at the console, in Chromium: the test gives the addresses and pays. It ends with
// an error at the first thing that is not as it should be.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const on = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];

const browser = await chromium.launch({
  executablePath: on.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

// visitor is a browser of its own, in which nothing may run that the console has not written.
async function visitor() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on("dialog", (d) => { faults.push("a dialog: " + d.message()); d.dismiss(); });
  page.on("pageerror", (e) => faults.push("an error of a script: " + e));
  page.on("console", (m) => { if (/Content Security Policy|Refused/.test(m.text())) faults.push(m.text()); });
  page.on("request", (r) => {
    if (!r.url().startsWith(on.api) && !r.url().startsWith(on.elsewhere)) faults.push("it loads " + r.url());
  });
  return page;
}

// tell has the test do something: pay, or change what the receiver answers.
async function tell(what) {
  const answer = await fetch(on.control + "/" + what, { method: "POST" });
  assert.equal(answer.status, 200, await answer.text());
}

// looked holds a page against axe's rules, in both colour schemes and on a phone, where nothing
// may be wider than the screen, and pictures it.
async function looked(page, name) {
  for (const [colors, width] of [["light", 1280], ["dark", 1280], ["light", 390]]) {
    await page.emulateMedia({ colorScheme: colors });
    await page.setViewportSize({ width, height: width < 500 ? 844 : 860 });
    const client = await page.context().newCDPSession(page);
    await client.send("Runtime.evaluate", { expression: axe }); // the policy of the page forbids it to pages
    const { passed, found } = JSON.parse((await client.send("Runtime.evaluate", {
      expression: `axe.run(document).then((r) => JSON.stringify({ passed: r.passes.length,
        found: r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.html).join(" ")) }))`,
      awaitPromise: true, returnByValue: true,
    })).result.value);
    assert.ok(passed > 10, `axe looked at ${name} by ${passed} rules`);
    for (const v of found) faults.push(`${name} (${colors}, ${width}): ${v}`);
    await client.detach();
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    if (wide > 0) faults.push(`${name} is ${wide} px wider than a screen of ${width}`);
    await page.screenshot({ path: path.join(on.pictures, `${name}-${colors}-${width}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 860 });
}

// pictured makes a picture for the documentation (docs/pictures), of what a screen shows.
const pictured = (page, name) => page.screenshot({ path: path.join(on.pictures, `console-${name}.png`) });

const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const state = (page, word) => page.locator("[data-part=state] .state", { hasText: word }).waitFor();

async function signIn(page) {
  await page.goto(on.api + "/console/events");
  await looked(page, "sign-in");
  await page.fill("#key", "whk_test_wrong");
  await press(page, "Sign in");
  await page.getByRole("alert").waitFor();
  await page.keyboard.type(on.key); // the field has the focus
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Events", exact: true }).waitFor();
}

// A payment comes into the open list by itself, and its page follows what becomes of it.
async function seePayments(page) {
  await page.evaluate(() => { window.sameDocument = true; });
  await tell("pay?to=shop&amount=25&memo=order+1042");
  const row = page.getByRole("row").filter({ hasText: "25.0000000 XLM" });
  await row.getByText("Delivered").waitFor();
  await tell("receiver?answers=500");
  await tell("pay?to=shop&amount=99.5&memo=order+1043");
  await page.getByRole("row").filter({ hasText: "99.5000000 XLM" }).waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument), true, "the page was loaded again");
  await looked(page, "events");
  await page.getByRole("row").filter({ hasText: "99.5000000 XLM" }).getByRole("link").first().click();
  await state(page, "Failed");
  assert.equal(await page.locator(".ladder li").count(), 2);
  await page.getByText("Response", { exact: true }).first().click();
  const timestamp = /Webhook-Timestamp: (\d+)/.exec(await page.locator("#headers").textContent())[1];
  const signed = createHash("sha256").update(timestamp + "." + await page.locator("#body").textContent());
  assert.equal(await page.locator("#digest").textContent(), signed.digest("hex"));
  await looked(page, "event");
  await page.getByRole("heading", { name: "Payment", exact: true }).scrollIntoViewIfNeeded();
  await pictured(page, "event");
}

// An endpoint and a watch are made, with faults beside their fields and nothing lost; the watch says
// what it would make of a payment. Both are deleted, by name.
async function make(page) {
  await page.goto(on.api + "/console/endpoints");
  await page.getByRole("link", { name: "New endpoint" }).click();
  await page.fill("#url", "http://shop.example/webhooks");
  await page.fill("#description", "Second shop");
  await press(page, "Create endpoint");
  await page.locator("#url-fault").waitFor();
  assert.equal(await page.inputValue("#description"), "Second shop");
  await looked(page, "endpoint-form");
  await page.fill("#url", on.shop.url.replace("/webhooks", "/second"));
  await press(page, "Create endpoint");
  assert.match(await page.locator("#secret").textContent(), /^whsec_/);
  await looked(page, "secret");
  await page.getByRole("link", { name: "create a watch" }).click();
  await page.fill("#walletAddress", on.shop.wallet);
  await page.fill("#label", "Invoice 1042");
  await page.selectOption("#amountKind", "range");
  await page.fill("#amount", "99.5");
  await page.fill("#amountTo", "10");
  await page.getByLabel("rejected payments").check();
  await press(page, "Create watch");
  await page.locator("#amount-fault").waitFor();
  await looked(page, "watch-form");
  await page.fill("#amountTo", "100.5");
  await press(page, "Create watch");
  await page.getByText("Watch created").waitFor();
  await page.locator("#check #amount").fill("25");
  await page.locator("#check #asset").fill("XLM");
  await press(page, "Check");
  await page.locator(".verdict").getByText("below the watch's minimum").waitFor();
  await looked(page, "watch-check");
  await page.evaluate(() => scrollTo(0, 0));
  await pictured(page, "watch");
  await page.getByRole("link", { name: "Edit…" }).click();
  await page.fill("#label", "Invoice 1043");
  await press(page, "Save");
  await page.getByRole("heading", { name: "Invoice 1043" }).waitFor();
  await page.getByRole("link", { name: "Statement of its balances" }).click();
  await page.getByRole("heading", { name: "Balances" }).waitFor();
  await looked(page, "statement");
  await page.goBack();
  await page.getByRole("link", { name: "Delete…" }).click();
  await page.fill("#name", "another");
  await press(page, "Delete permanently");
  await page.locator("#name-fault").waitFor();
  await looked(page, "delete");
  await page.fill("#name", "Invoice 1043");
  await press(page, "Delete permanently");
  await page.getByText("Deleted.").waitFor();
}

async function steer(page) {
  await page.goto(`${on.api}/console/endpoints/${on.shop.endpoint}`);
  await press(page, "Disable");
  await page.getByText("it was disabled manually").waitFor();
  await looked(page, "endpoint-disabled");
  await press(page, "Enable");
  await page.getByRole("button", { name: "Send test event" }).waitFor();
  await tell("receiver?answers=200");
  await press(page, "Send test event");
  await state(page, "Delivered");
  await page.goto(`${on.api}/console/endpoints/${on.shop.endpoint}`);
  await page.getByRole("link", { name: /Replay failed deliveries/ }).click();
  assert.equal(await page.locator(".count strong").textContent(), "1");
  await looked(page, "replay");
  await press(page, "Replay 1");
  await page.getByText("Failed deliveries are queued again").waitFor();
  await page.goto(`${on.api}/console/events?minAmount=99`);
  await page.getByText("Delivered", { exact: true }).waitFor();
  await page.getByRole("row").filter({ hasText: "99.5000000 XLM" }).getByRole("link").first().click();
  await press(page, "Send again");
  await page.getByRole("heading", { name: "Run 3" }).waitFor();
  await state(page, "Delivered");
}

// A page that cannot be answered yet says so, and is there by itself once it can.
async function comesBack(page) {
  await tell("history?is=away");
  await page.goto(on.api + "/console/events");
  await page.getByText("refreshes automatically").waitFor();
  await looked(page, "history-away");
  await tell("history?is=back");
  await page.getByRole("heading", { name: "Events", exact: true }).waitFor();
}

// What others write in labels, descriptions, memos and answers is shown, and is text.
async function hostile(page) {
  await page.goto(on.api + "/console");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await tell("pay?to=hostile&amount=7&memo=" + encodeURIComponent(on.hostile.memo));
  await sees(page);
  await page.goto(`${on.api}/console/events?watchId=${on.hostile.watch}`);
  await page.locator("[data-part=events]").getByText(on.hostile.label).waitFor();
  await page.locator("[data-part=events] th a").click();
  await state(page, "Failed");
  await page.getByText("Response", { exact: true }).first().click();
  for (const text of [on.hostile.memo, on.hostile.answer]) {
    assert.ok((await page.locator("main").innerText()).includes(text), "not shown: " + text);
  }
  for (const at of ["watches", "watches/" + on.hostile.watch,
    "watches/" + on.hostile.watch + "/history", "endpoints", "endpoints/" + on.hostile.endpoint,
    "events?memo=" + encodeURIComponent(on.hostile.memo)]) {
    await page.goto(on.api + "/console/" + at);
    await looked(page, "hostile-" + at.split(/[_?]/)[0].replace("/", "-"));
  }
  assert.equal(await page.evaluate(() => window.hit), undefined, "a text was run");
}

// Fresh eyes see which endpoint is down, without loading the page again: it was opened before.
async function sees(page) {
  await page.locator(".verdict").getByText("1 down").waitFor();
  const worst = page.locator("[data-part=overview] tbody tr").first();
  assert.match(await worst.innerText(), /Down/);
  assert.ok((await worst.innerHTML()).includes(on.hostile.endpoint), "another is the worst");
  await looked(page, "overview-down");
}

// Another site's link opens the console, its frame and its form do not.
async function fromElsewhere(page) {
  await page.goto(on.elsewhere + "/");
  await page.getByRole("link", { name: "Console" }).click();
  await page.getByRole("heading", { name: "Events", exact: true }).waitFor();
  await page.goto(on.elsewhere + "/");
  await page.getByRole("button", { name: "Forged" }).click();
  await page.getByText("ORIGIN_NOT_ALLOWED").waitFor();
}

const page = await visitor();
process.on("uncaughtException", async (e) => { // what the person saw, and where
  console.error(e, page.url(), await page.locator("main").innerText().catch(() => ""));
  process.exit(1);
});
await signIn(page);
await seePayments(page);
await make(page);
await steer(page);
await comesBack(page);
await page.goto(on.api + "/console");
await page.getByRole("heading", { name: "Overview" }).waitFor();
await looked(page, "overview");
for (const at of ["endpoints", "watches"]) {
  await page.goto(`${on.api}/console/${at}`);
  await looked(page, at);
}
await page.goto(`${on.api}/console/events?state=BOGUS&minAmount=much`);
await page.getByText("Some filters are invalid.").waitFor();
await looked(page, "filters");
await page.goto(`${on.api}/console/watches/${on.shop.watch}`);
await looked(page, "watch");
await page.getByRole("link", { name: "history", exact: true }).click();
await page.getByRole("heading", { name: "Changes", exact: true }).waitFor();
await looked(page, "watch-history");
await page.goto(`${on.api}/console/endpoints/${on.shop.endpoint}`);
await looked(page, "endpoint");
await page.getByRole("link", { name: "history", exact: true }).click();
await page.getByRole("link", { name: "after version 1", exact: true }).press("Enter");
await page.getByRole("heading", { name: "State after version 1" }).waitFor();
await looked(page, "endpoint-history");
await page.goto(on.api + "/console/endpoints/ep_none");
await looked(page, "missing");
await fromElsewhere(page);
await hostile(page);
await page.goto(on.api + "/console");
await press(page, "Sign out");
await page.getByText("You are signed out.").waitFor();

const guest = await visitor();
await guest.goto(on.link);
await guest.getByRole("heading", { name: "Overview" }).waitFor();
await browser.close();
assert.deepEqual(faults, []);
