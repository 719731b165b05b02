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
