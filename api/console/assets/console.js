// Copying: the buttons are hidden where there is no script, or nothing to copy with.
"use strict";
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
