// Shows times in the visitor's own time zone; without scripts they are in UTC.
"use strict";

const localTimes = (root) => {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.getTime())) {
      element.title = element.textContent;
      element.textContent = format.format(at);
    }
  }
};

localTimes(document);
document.addEventListener("htmx:load", (event) => localTimes(event.detail.elt));
