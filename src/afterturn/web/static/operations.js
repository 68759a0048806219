// Keeps the numbers of the stages fresh while somebody looks. Tables stay, so that no button moves under a hand; where
// they are no longer true, the page says so.

import { fetched, note } from "./live.js";

const stages = document.getElementById("stages");
const bar = document.querySelector(".new-items a");
const offline = note();
const listed = () => [...stages.querySelectorAll("[data-stage=failed] .number, [data-stage=dead] .number")]
  .map((one) => one.textContent).join();
const first = listed();

async function renew() {
  const fresh = await fetched(`/operations/stages${location.search}`);
  stages.replaceChildren(...fresh.body.childNodes);
  const changed = listed() !== first;
  bar.hidden = !changed;
  bar.querySelector("span").textContent = changed ? "The lists have changed: reload" : "";
}

// One request at a time: an answer that comes late must not replace a newer one, nor clear its note.
async function renewAfter(pause) {
  await new Promise((resolve) => setTimeout(resolve, pause));
  if (!document.hidden) await renew().then(offline.clear, () => offline.tell("Not renewed: what you see may be old."));
  renewAfter(pause);
}

renewAfter(10000);
