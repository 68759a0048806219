// Makes the inbox quicker: older pages follow in place, new conversations are announced, arrow keys walk the rows.
// Everything here is also a link.

import { fetched, listen } from "./live.js";

const pager = document.getElementById("pager");
const bar = document.querySelector(".new-items");
const form = document.getElementById("filter-form");

const list = () => document.querySelector("ol.rows");

// A conversation that moved while someone pages stays where it was first shown: no row twice.
function append(page) {
  const known = new Set([...document.querySelectorAll("ol.rows > li")].map((row) => row.dataset.id));
  const added = [...page.querySelectorAll("ol.rows > li")].filter((row) => !known.has(row.dataset.id));
  if (!list() && added.length) {
    document.getElementById("rows")?.remove();
    pager.before(page.querySelector("ol.rows"));
  } else {
    list()?.append(...added.map((row) => document.importNode(row, true)));
  }
}

async function older(link) {
  if (pager.getAttribute("aria-busy") === "true") return;
  pager.setAttribute("aria-busy", "true");
  const focused = document.activeElement === link;
  const before = list()?.children.length ?? 0;
  link.lastChild.textContent = "Loading …";
  try {
    const page = await fetched(link.href);
    append(page);
    pager.replaceChildren(...page.getElementById("pager").childNodes);
    if (focused) list()?.children[before]?.querySelector("a").focus();
    watch();
  } catch {
    link.lastChild.textContent = "That did not load. Try again";
    watcher.disconnect();
  } finally {
    pager.removeAttribute("aria-busy");
  }
}

const watcher = new IntersectionObserver((seen) => {
  const link = pager.querySelector("a.older");
  // If a page read many rows and shows few, the reader has to ask for more.
  if (link && !pager.querySelector(".notice") && seen.some((one) => one.isIntersecting)) older(link);
}, { rootMargin: "600px" });

function watch() {
  watcher.disconnect();
  watcher.observe(pager);
}

pager.addEventListener("click", (event) => {
  const link = event.target.closest("a.older");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  older(link);
});

const title = document.title;

function tell({ count, more }) {
  const link = bar.querySelector("a");
  const text = count ? `${count}${more ? "+" : ""} new` : more ? "Perhaps new" : "";
  link.hidden = !text;
  link.querySelector("span").textContent = text;
  document.title = text ? `(${text}) ${title}` : title;
}

const listenAnew = bar?.dataset.live ? listen(() => bar.dataset.live, tell) : undefined;

bar?.querySelector("a").addEventListener("click", async (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const link = event.currentTarget;
  try {
    const page = await fetched(link.href);
    const fresh = page.getElementById("rows");
    if (!fresh) throw new Error("the page has no rows");
    document.getElementById("rows")?.replaceWith(fresh);
    pager.replaceChildren(...page.getElementById("pager").childNodes);
    bar.dataset.live = page.querySelector(".new-items").dataset.live;
    tell({ count: 0 });
    listenAnew?.();
    window.scrollTo({ top: 0 });
    list()?.querySelector("a")?.focus({ preventScroll: true });
    watch();
  } catch {
    location.assign(link.href);
  }
});

// What reactions make of a row that is on the screen comes in place: while one is owed, the page is asked again. A row
// that would change its height stays as it is, so that nothing moves under a hand.
function renew(row, fresh) {
  if (row.dataset.at !== fresh.dataset.at) return; // it moved up, and is told as an arrival
  for (const part of [".row-facts", ".row-end"]) {
    const [old, now] = [row.querySelector(part), document.importNode(fresh.querySelector(part), true)];
    const height = row.offsetHeight;
    old.replaceWith(now);
    if (row.offsetHeight !== height) now.replaceWith(old);
  }
}

async function renewOwed() {
  const rows = [...document.querySelectorAll("ol.rows > li")].filter((row) => row.querySelector(".tag-owed"));
  if (document.hidden || !rows.length) return;
  const page = await fetched(location.href);
  for (const row of rows) {
    const fresh = page.querySelector(`ol.rows > li[data-id="${CSS.escape(row.dataset.id)}"]`);
    if (fresh) renew(row, fresh);
  }
}

setInterval(() => renewOwed().catch(() => {}), 5000);

document.querySelector(".views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Arrows walk the rows once one of them has the focus.
document.addEventListener("keydown", (event) => {
  const row = document.activeElement?.closest("ol.rows > li");
  if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.querySelector("a").focus();
});

// An address without empty fields is one to keep.
form?.addEventListener("submit", () => {
  for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
});
window.addEventListener("pageshow", () => {
  for (const field of form?.elements ?? []) field.disabled = false;
});

watch();
