"use strict";

// Copying: the buttons are hidden where there is no script, or nothing to copy with.
for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  const label = button.textContent;
  button.hidden = false;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const from = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(from.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(from);
      button.textContent = "Selected: copy it with the keyboard";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

// Changes: the server says that there are some, and the parts of the page that have a name are
// taken from the page as it is now. What is open stays open, and what has the focus keeps it.
const live = document.querySelector("[data-live]");

function takePart(part, fresh) {
  const open = [...part.querySelectorAll("details")].map((d) => d.open);
  const held = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
  part.replaceChildren(...fresh.childNodes);
  part.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? d.open; });
  if (held) part.querySelector(`a[href="${CSS.escape(held)}"]`)?.focus();
}

async function takeChanges() {
  const answer = await fetch(location.href);
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (fresh) takePart(part, fresh);
  }
  live.textContent = "Live: changed at " + new Date().toISOString().slice(11, 19) + " UTC";
}

let stream;
function follow() {
  stream?.close();
  stream = undefined;
  if (document.hidden) return; // a browser has few connections to one server
  stream = new EventSource(live.dataset.live);
  stream.onmessage = takeChanges;
}
if (live) {
  live.hidden = false;
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => stream?.close());
  follow();
}

// What could not be answered yet: the page is asked for again, less and less often, and loaded
// once it has an answer. Until then nothing moves under who reads it.
const waiting = document.querySelector("[data-again]");
const againMaxMs = 30_000;

async function lookAgain() {
  if (document.hidden) return false;
  const answer = await fetch(location.href).catch(() => undefined);
  if (!answer?.ok) return false;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (page.querySelector("[data-again]")) return false;
  if (answer.redirected) location.replace(answer.url);
  else location.reload();
  return true;
}

function lookAgainIn(ms) {
  setTimeout(async () => {
    if (!await lookAgain()) lookAgainIn(Math.min(2 * ms, againMaxMs));
  }, ms);
}
if (waiting) {
  waiting.querySelector("[hidden]").hidden = false;
  lookAgainIn(1000);
}
