"use strict";
// Shows each time in the zone of the reader. Without this script a page shows UTC.
function localTimes(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    const time = new Date(one.dateTime);
    if (!isNaN(time)) {
      one.title = one.dateTime;
      one.textContent = time.toLocaleString(undefined, {dateStyle: "short", timeStyle: "medium"});
    }
  }
}
document.addEventListener("DOMContentLoaded", () => localTimes(document));

// A part that is refreshed keeps its focus by the ids in it, and here what the reader has scrolled.
// A screen reader is told of a change only. What cannot be refreshed is said, and the numbers stay.
const isLive = ({target}) => target.id === "live";
function tell(text, isBad) {
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = isBad ? "said bad" : "hidden";
}
let scrolled = [], place = 0;
document.addEventListener("htmx:beforeSwap", ({detail}) => {
  if (!isLive(detail) || !detail.shouldSwap) return;
  detail.shouldSwap = detail.xhr.responseText.includes('id="live"');
  if (!detail.shouldSwap) location.reload();  // to sign in again
  place = scrollY;
  scrolled = [...document.querySelectorAll(".scroll[id]")].map((it) => [it.id, it.scrollLeft]);
});
document.addEventListener("htmx:afterSwap", ({target}) => {
  localTimes(document);
  if (!isLive({target})) return;
  for (const [id, left] of scrolled) {
    const table = document.getElementById(id);
    if (table) table.scrollLeft = left;
  }
  scrollTo(scrollX, place);
  tell(document.querySelector("#live h1")?.textContent ?? "", false);
});
function noRefresh({detail}) {
  if (!isLive(detail)) return;
  const since = new Date().toLocaleTimeString();
  const state = document.getElementById("state");
  if (!state.classList.contains("bad")) tell(`There is no answer since ${since}. The numbers are older.`, true);
}
document.addEventListener("htmx:sendError", noRefresh);
document.addEventListener("htmx:responseError", noRefresh);

// The form of a request: Ctrl + Enter in the body sends, and an answer with an error is shown, too.
function noAnswer({target, xhr}) {
  target.textContent = xhr.status === 200  // the page to sign in
    ? "Nothing was sent, because you are signed out. Open the page again."
    : `There is no answer: ${xhr.status || "the connection failed"}. The request may have been made.`;
}
document.addEventListener("keydown", (event) => {
  const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (sends && event.target.matches(".request textarea")) event.target.form.requestSubmit();
});
document.addEventListener("htmx:beforeSwap", ({detail}) => {
  if (detail.target.id !== "answer") return;
  detail.shouldSwap = detail.xhr.responseText.includes('<section id="answer"');
  detail.isError = !detail.shouldSwap;
  if (detail.isError) noAnswer(detail);
});
document.addEventListener("htmx:afterSwap", ({detail}) => {
  if (detail.target.id === "answer") detail.target.scrollIntoView({block: "nearest"});
});
document.addEventListener("htmx:sendError", ({detail}) => {
  if (detail.target.id === "answer") noAnswer(detail);
});
