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
document.addEventListener("htmx:afterSettle", () => localTimes(document));

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
