// What a page of the site does beside being read: the colour scheme, the menu of narrow screens,
// buttons that copy code, and the search. Everything else works without it.
"use strict";

// Before the page is painted, so that it does not flash.
const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;

document.addEventListener("DOMContentLoaded", () => {
  const root = document.body.dataset.root;
  const one = (selector) => document.querySelector(selector);

  one(".theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme
      ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* it holds for this page */ }
  });

  const menu = one(".menu");
  const setMenu = (open) => {
    menu.setAttribute("aria-expanded", open);
    document.body.classList.toggle("menu-open", open);
  };
  menu.addEventListener("click", () => setMenu(menu.getAttribute("aria-expanded") !== "true"));

  for (const block of document.querySelectorAll(".code:not(.shown)")) {
    if (!navigator.clipboard) break; // a page that was opened from a folder may have none
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "copy";
    copy.textContent = "Copy";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    block.append(copy);
  }

  search(root, one("#q"), one("#found"));
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      one("#q").focus();
    }
    if (event.key === "Escape") setMenu(false);
  });
});

const foundMost = 12;

// search shows the parts of pages that have every word of a question.
function search(root, field, list) {
  let chosen = -1;
  let index;

  // The index is fetched when somebody is about to ask.
  const load = () => {
    index ??= new Promise((resolve) => {
      const script = document.createElement("script");
      script.src = root + "assets/search-index.js";
      script.addEventListener("load", () => resolve(window.searchIndex.map((part) => ({
        ...part, title: part.t.toLowerCase(), heading: (part.h ?? "").toLowerCase(), text: part.x.toLowerCase(),
      }))));
      document.head.append(script);
    });
    return index;
  };

  const choose = (to) => {
    const items = list.querySelectorAll("[role=option]");
    if (items.length === 0) return;
    chosen = (to + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", i === chosen));
    field.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  };
  const show = (open) => {
    list.hidden = !open;
    field.setAttribute("aria-expanded", open);
    if (!open) field.removeAttribute("aria-activedescendant");
  };

  const ask = async () => {
    const question = field.value;
    const words = question.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return show(false);
    const parts = await load();
    if (question !== field.value) return; // another is asked already
    const found = parts.map((part) => ({ part, score: scoreOf(part, words) }))
      .filter((one) => one.score > 0).sort((a, b) => b.score - a.score).slice(0, foundMost);
    list.replaceChildren(...found.map(({ part }, i) => option(root, part, words, i)));
    if (found.length === 0) {
      const none = document.createElement("li");
      none.className = "none";
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      none.textContent = `Nothing has “${question.trim()}”.`;
      list.append(none);
    }
    chosen = -1;
    show(true);
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", ask);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); choose(chosen + 1); }
    if (event.key === "ArrowUp") { event.preventDefault(); choose(chosen - 1); }
    if (event.key === "Escape") { show(false); field.blur(); }
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelectorAll("a")[Math.max(chosen, 0)]?.click();
  });
  document.addEventListener("click", (event) => {
    if (!field.form.contains(event.target) || event.target.closest("#found a")) show(false);
  });
}

// scoreOf is 0 for a part that lacks a word. The beginning of a word counts more than its middle,
// a title more than a heading, and both more than text; reasons come
// after what they are for.
function scoreOf(part, words) {
  let score = 0;
  for (const word of words) {
    const one = 12 * fits(part.title, word) + 9 * fits(part.heading, word) + fits(part.text, word);
    if (one === 0) return 0;
    score += one;
  }
  return score * (part.h ? 1 : 1.2) * (part.u.startsWith("decisions/") ? 0.4 : 1);
}

function fits(text, word) {
  const at = text.indexOf(word);
  if (at < 0) return 0;
  const begins = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "u");
  return begins.test(text) ? 2 : 1;
}

function option(root, part, words, i) {
  const item = document.createElement("li");
  item.id = "found-" + i;
  item.setAttribute("role", "option");
  const link = document.createElement("a");
  link.href = root + part.u;
  link.tabIndex = -1;
  const name = document.createElement("strong");
  name.textContent = part.h ? `${part.t} › ${part.h}` : part.t;
  const around = document.createElement("span");
  const at = Math.max(0, Math.min(...words.map((word) => part.text.indexOf(word)).filter((at) => at >= 0)) - 40);
  const from = Number.isFinite(at) ? part.x.lastIndexOf(" ", at) + 1 : 0;
  around.textContent = part.x.slice(from, from + 130);
  link.append(name, around);
  item.append(link);
  return item;
}
