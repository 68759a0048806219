// Keeps what reactions, people and providers make of the conversation fresh, says that there are more messages, and
// keeps a reply that was begun.

import { fetched, listen } from "./live.js";

const bar = document.querySelector(".new-items");
const title = document.title;
let fresh; // the page with messages that this one does not show
let left = false; // something was not renewed, because a hand is on it

const ids = (page) => [...page.querySelectorAll(".thread > li.message")].map((one) => one.dataset.id);

function isInUse(part) {
  const fields = [...part.querySelectorAll("input:not([type=hidden])")];
  return part.contains(document.activeElement) || fields.some((one) => one.value !== one.defaultValue);
}

// A part as it is now, with what was unfolded in it; one that somebody is using waits until they leave it.
function swap(part, now) {
  now = document.importNode(now, true);
  const unfolded = [...part.querySelectorAll("details")];
  [...now.querySelectorAll("details")].forEach((one, place) => { one.open = unfolded[place]?.open ?? false; });
  if (part.isEqualNode(now)) return;
  if (isInUse(part)) left = true;
  else part.replaceWith(now);
}

async function renew() {
  left = false;
  const page = await fetched(location.pathname);
  const told = page.querySelector(".new-items").dataset;
  for (const part of document.querySelectorAll("[data-part], .thread > li[data-id]")) {
    const name = part.dataset.part ? `[data-part="${part.dataset.part}"]` : `.thread > li[data-id="${CSS.escape(part.dataset.id)}"]`;
    const now = page.querySelector(name);
    if (now) swap(part, now);
  }
  const here = new Set(ids(document));
  const added = ids(page).filter((one) => !here.has(one)).length;
  fresh = added ? page : undefined;
  announce(added);
  bar.dataset.known = told.known;
  if (told.live !== bar.dataset.live) {
    bar.dataset.live = told.live;
    listenAnew();
  }
}

function announce(added) {
  const link = bar.querySelector("a");
  link.hidden = !added;
  link.querySelector("span").textContent = added ? `${added} new message${added > 1 ? "s" : ""}` : "";
  document.title = added ? `(${added}) ${title}` : title;
}

let wanted = bar?.dataset.known; // as the server last told it
let renewing = false;

async function check() {
  if (document.hidden || renewing || (wanted === bar.dataset.known && !left)) return; // shown again, it is told anew
  renewing = true;
  try {
    await renew();
    if (wanted !== bar.dataset.known) setTimeout(check, 2000); // one of the two is older, and the next word says which
  } catch {
    setTimeout(check, 5000);
  } finally {
    renewing = false;
  }
}

const listenAnew = bar?.dataset.live
  ? listen(() => bar.dataset.live, ({ known }) => { wanted = known; check(); })
  : undefined;

document.addEventListener("focusout", () => { if (left) setTimeout(check); });

bar?.querySelector("a").addEventListener("click", (event) => {
  if (!fresh || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const here = new Set(ids(document));
  for (const name of [".thread", ".before"]) {
    document.querySelector(name).replaceWith(document.importNode(fresh.querySelector(name), true));
  }
  fresh = undefined;
  announce(0);
  const shown = [...document.querySelectorAll(".thread > li.message")];
  const first = shown.find((one) => !here.has(one.dataset.id));
  shown.at(-1)?.scrollIntoView({ block: "end" });
  first?.setAttribute("tabindex", "-1");
  first?.focus({ preventScroll: true });
});

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

// What is being written stays in this tab until it has arrived: where the session ended or the server was away, it is
// there again for the same person. Its key comes with it, so that what did arrive is not sent twice.
const words = document.getElementById("text");
if (words) {
  const { who } = words.form.dataset;
  const name = `draft ${who} ${location.pathname}`;
  const key = words.form.elements.key;
  const anew = key.value;
  const draft = JSON.parse(sessionStorage.getItem(name) ?? "null");
  if (["reply", "again"].includes(new URLSearchParams(location.search).get("done"))) {
    if (draft?.sent) sessionStorage.removeItem(name);
    history.replaceState(null, "", location.pathname); // that has been said, and is not true of what is sent next
  } else if (draft && !words.value) {
    words.value = draft.text;
    if (draft.sent) key.value = draft.sent;
  }
  words.addEventListener("input", () => {
    key.value = anew;
    if (words.value) sessionStorage.setItem(name, JSON.stringify({ text: words.value }));
    else sessionStorage.removeItem(name);
  });
  words.form.addEventListener("submit", () => {
    if (words.value.trim()) sessionStorage.setItem(name, JSON.stringify({ text: words.value, sent: key.value }));
  });
}

// Ctrl+Enter sends.
words?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
});

// The newest message is what somebody came for.
const newest = document.querySelector(".thread > .message:last-of-type, .thread > li:last-child");
if (document.querySelector(".reply") && !location.hash && performance.getEntriesByType("navigation")[0]?.type === "navigate") {
  newest?.scrollIntoView({ block: "end" });
}
