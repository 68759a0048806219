// Listens to the server while the page is looked at: a browser has few connections, and hidden pages need none.

export function listen(address, heard) {
  let source;

  function open() {
    source?.close();
    source = new EventSource(address());
    source.onmessage = (event) => heard(JSON.parse(event.data));
    source.addEventListener("over", close);
  }

  function close() {
    source?.close();
    source = undefined;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  if (!document.hidden) open();
  return open;
}
