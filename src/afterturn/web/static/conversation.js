// Says that there is more than the page shows, and keeps a reply that was begun.

import { listen } from "./live.js";

const bar = document.querySelector(".arrivals");

if (bar?.dataset.live) {
  listen(() => bar.dataset.live, ({ changed }) => { bar.querySelector("a").hidden = !changed; });
}

// The form's key makes a second sending harmless; this only spares the wait for it.
for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

// Ctrl+Enter sends.
document.getElementById("text")?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
});

// The newest message is what somebody came for.
const newest = document.querySelector(".thread > .message:last-of-type, .thread > li:last-child");
if (document.querySelector(".reply") && !location.hash && performance.getEntriesByType("navigation")[0]?.type === "navigate") {
  newest?.scrollIntoView({ block: "end" });
}
