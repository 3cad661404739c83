// Names and keyboard access that Material leaves out.
document$.subscribe(() => {
  document.querySelector(".md-search").setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  document.querySelectorAll(".md-typeset__scrollwrap, pre code, .mermaid").forEach((part) => { part.tabIndex = 0; });
});
