// Listens to the server while the page is looked at: a browser has few connections, and hidden pages need none.

const PATIENCE = 6000; // longer than a stream that the server ends on purpose takes to come back
const AGAIN = 5000;

// A page of this server as it is now.
export async function fetched(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw new Error(`answered ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Says that what is shown may be old. It stands over the page, so that it moves nothing.
export function note() {
  const said = document.createElement("p");
  said.className = "offline";
  said.setAttribute("role", "status");
  document.body.append(said);
  let waiting;
  return {
    tell(text, after = 0) {
      waiting ??= setTimeout(() => {
        const link = document.createElement("a");
        link.href = location.href;
        link.textContent = "Reload";
        said.replaceChildren(`${text} `, link);
      }, after);
    },
    clear() {
      clearTimeout(waiting);
      waiting = undefined;
      said.replaceChildren();
    },
  };
}

export function listen(address, heard) {
  const offline = note();
  let source;
  let again;

  function open() {
    close();
    source = new EventSource(address());
    source.onopen = offline.clear;
    source.onmessage = (event) => heard(JSON.parse(event.data));
    source.onerror = () => {
      offline.tell("Not connected: what you see may be old.", PATIENCE);
      if (source.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN);
    };
    source.addEventListener("over", () => {
      close();
      offline.clear();
      offline.tell("Your session has ended.");
    });
  }

  function close() {
    clearTimeout(again);
    source?.close();
    source = undefined;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  if (!document.hidden) open();
  return open;
}
