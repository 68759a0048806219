// Keeps the numbers of the stages fresh while somebody looks; tables stay, so that no button moves under a hand.

async function renew() {
  if (document.hidden) return;
  const answer = await fetch(`/operations/stages${location.search}`, { headers: { accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.getElementById("stages").replaceChildren(...fresh.body.childNodes);
}

setInterval(() => renew().catch(() => {}), 10000);
