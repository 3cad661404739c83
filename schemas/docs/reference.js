// Shows the API (openapi.js) with Redoc. It gives Redoc a light and a dark theme, adds the names and
// landmarks that Redoc lacks, and offers "Try it" if a service serves the page.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const served = location.pathname === "/docs";
  const font = "system-ui, sans-serif";
  const code = "ui-monospace, monospace";

  const theme = (c) => ({
    colors: {
      primary: { main: c.link }, success: { main: c.good }, error: { main: c.bad }, warning: { main: c.warn },
      text: { primary: c.text, secondary: c.quiet }, border: { dark: c.line, light: c.line },
      gray: { 50: c.soft, 100: c.soft },
      responses: Object.fromEntries([["success", c.good], ["error", c.bad], ["redirect", c.warn], ["info", c.link]]
        .map(([kind, color]) => [kind, { color, backgroundColor: c.soft, tabTextColor: c.onPanel[kind] }])),
      http: { get: "#1e6b3a", post: "#1a5b9e", patch: "#8a4b00", put: "#8a4b00", delete: "#b3261e", head: "#6b3a8a", basic: "#5a5a5a" },
    },
    schema: { linesColor: c.line, nestedBackground: c.soft, typeNameColor: c.quiet, typeTitleColor: c.quiet, requireLabelColor: c.bad, arrow: { color: c.quiet } },
    typography: {
      fontFamily: font, headings: { fontFamily: font },
      code: { fontFamily: code, color: c.code, backgroundColor: c.soft },
      links: { color: c.link, visited: c.link, hover: c.link, textDecoration: "underline" },
    },
    sidebar: { backgroundColor: c.soft, textColor: c.text, activeTextColor: c.link },
    rightPanel: { backgroundColor: "#1f262d", textColor: "#ffffff" },
    codeBlock: { backgroundColor: "#11171a" },
  });
  const onPanel = { success: "#7fdca0", error: "#ffa39c", redirect: "#ffd479", info: "#9ec4ff" };
  const themes = {
    light: theme({ text: "#22272e", quiet: "#545b64", link: "#1a5b9e", soft: "#f5f6f8", line: "#8a9199", code: "#a3155e", good: "#1e6b3a", bad: "#b3261e", warn: "#7a4a00", onPanel }),
    dark: theme({ text: "#e4e7ec", quiet: "#b3bac4", link: "#9ec4ff", soft: "#23282f", line: "#6b737d", code: "#f59ac3", good: "#7fdca0", bad: "#ffa39c", warn: "#ffd479", onPanel }),
  };

  function show() {
    const place = document.createElement("div");
    place.id = "reference";
    document.getElementById("reference").replaceWith(place);
    Redoc.init(openapi, {
      theme: dark.matches ? themes.dark : themes.light,
      hideDownloadButtons: !served, downloadUrls: [{ title: "openapi.yaml", url: "/v1/openapi.yaml" }, { title: "openapi.json", url: "/v1/openapi.json" }],
      nativeScrollbars: true, showExtensions: ["x-live-in-repeats"], sortRequiredPropsFirst: true, disableSearch: false,
    }, place, () => {
      name();
      new MutationObserver(name).observe(place, { childList: true, subtree: true });
    });
  }

  // name adds what a screen reader and a keyboard need. Redoc draws parts anew while a person reads.
  function name() {
    const set = (selector, attributes) => document.querySelectorAll(selector).forEach((part) => {
      for (const [k, v] of Object.entries(attributes)) if (part.getAttribute(k) !== v) part.setAttribute(k, v);
    });
    set(".api-content", { role: "main" });
    set(".menu-content", { role: "navigation", "aria-label": "Operations" });
    set("#reference h5", { role: "heading", "aria-level": "3" });
    set("#reference pre, .menu-content .scrollbar-container, .menu-content > div", { tabindex: "0" });
    document.querySelectorAll("[data-role='search:results'] [aria-label]").forEach((hit) => hit.removeAttribute("aria-label")); // differs from what it shows
    if (served) for (const one of operations()) one.offer();
  }

  const resolved = (part) => part?.$ref ? part.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/")], openapi) : part;
  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  function* operations() {
    for (const [path, item] of Object.entries(openapi.paths)) {
      for (const method of ["get", "post", "patch", "delete"]) {
        const operation = item[method];
        if (!operation) continue;
        yield {
          offer() {
            const section = document.querySelector(`[data-section-id$="/operation/${operation.operationId}"] h2`);
            if (!section || section.parentElement.querySelector(":scope > .try")) return;
            section.after(element("button", { className: "try", type: "button", textContent: "Try it",
              onclick: () => attempt(method.toUpperCase(), path, operation) }));
            section.nextSibling.setAttribute("aria-label", `Try it: ${operation.summary}`);
          },
        };
      }
    }
  }

  let key = ""; // is never stored

  // attempt asks for what an operation needs, and sends it to this service.
  function attempt(method, path, operation) {
    const dialog = document.getElementById("try");
    const fields = (operation.parameters ?? []).map(resolved).map((p) => ({ ...p, input: element("input", {
      required: Boolean(p.required), placeholder: String(p.example ?? p.schema?.examples?.[0] ?? ""), autocomplete: "off", spellcheck: false }) }));
    const secret = element("input", { type: "password", value: key, autocomplete: "off", oninput: () => { key = secret.value; } });
    const media = resolved(operation.requestBody)?.content["application/json"];
    const example = media && (media.example ?? resolved(Object.values(media.examples ?? {})[0])?.value);
    const body = media && element("textarea", { rows: 10, spellcheck: false, value: example === undefined ? "" : JSON.stringify(example, null, 2) });
    const answer = element("pre", { tabIndex: 0, hidden: true });
    answer.setAttribute("aria-live", "polite");
    const label = (text, input) => element("label", {}, text, input);
    const form = element("form", {
      async onsubmit(event) {
        event.preventDefault();
        answer.hidden = false;
        answer.textContent = "Sending…";
        answer.textContent = await sent(method, path, fields, secret.value, body?.value).catch((e) => `No answer: ${e.message}`);
      },
    },
    element("h2", { id: "try-title", textContent: `${method} ${path}` }),
    ...(operation.security?.length === 0 ? [] : [label("API key (stays in this page)", secret)]),
    ...fields.map((f) => label(`${f.name} (${f.in}${f.required ? ", required" : ""})`, f.input)),
    ...(body ? [label("Body", body)] : []),
    element("p", {}, element("button", { textContent: "Send" }), element("button", { type: "button", textContent: "Close", onclick: () => dialog.close() })),
    answer);
    dialog.replaceChildren(form);
    dialog.showModal();
  }

  async function sent(method, path, fields, bearer, body) {
    const filled = (where) => fields.filter((f) => f.in === where && f.input.value !== "");
    for (const f of filled("path")) path = path.replace(`{${f.name}}`, encodeURIComponent(f.input.value));
    const query = new URLSearchParams(filled("query").map((f) => [f.name, f.input.value]));
    const headers = new Headers(filled("header").map((f) => [f.name, f.input.value]));
    if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
    if (body) headers.set("Content-Type", "application/json");
    const response = await fetch(path + (query.size ? `?${query}` : ""), { method, headers, body: body || undefined, credentials: "omit", redirect: "error", cache: "no-store" });
    const text = await response.text();
    const shown = [...response.headers].map(([k, v]) => `${k}: ${v}`).join("\n");
    let pretty = text;
    try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is no JSON */ }
    return `${response.status} ${response.statusText}\n${shown}\n\n${pretty}`;
  }

  dark.addEventListener("change", show);
  show();
})();
