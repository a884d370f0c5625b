// What every page shares: what it was given, and how it tells the test what has happened.
const query = new URLSearchParams(location.search);
export const given = JSON.parse(query.get("given"));

let telling = Promise.resolve();
/** Tell the test something; what is told first arrives first. */
export function tell(what) {
  const request = { method: "POST", body: JSON.stringify(what) };
  telling = telling.then(() => fetch(`/told/${query.get("page")}`, request));
  return telling;
}

addEventListener("error", (event) => tell({ failed: event.message }));
addEventListener("unhandledrejection", (event) => tell({ failed: String(event.reason) }));
