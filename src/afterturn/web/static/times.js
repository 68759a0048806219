// Keeps ages ("7m") true while a page stays open. Without it they are those of when it was made.

// The server's clock counts: this machine's may be wrong.
const skew = Date.now() - (Date.parse(document.body.dataset.now) || Date.now());

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

export function age(milliseconds) {
  const seconds = Math.max(Math.floor(milliseconds / 1000), 0);
  for (const [unit, letter] of UNITS) if (seconds >= unit) return `${Math.floor(seconds / unit)}${letter}`;
  return "now";
}

export function refresh(root = document) {
  for (const time of root.querySelectorAll("time.ago")) {
    const text = age(Date.now() - skew - Date.parse(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(refresh, 20000);
