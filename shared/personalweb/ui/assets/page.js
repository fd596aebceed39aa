// What pages do better with a script. They work without it. What forms need comes first: the rest may
// throw in a browser that lacks a function.
"use strict";

// The buttons that show a password. It is hidden again before it is sent, so that the browser
// does not keep it as a text.
const reveal = (button, show) => {
  const input = button.parentElement.querySelector("input");
  const text = button.firstElementChild;
  if (!button.dataset.show) button.dataset.show = text.textContent;
  input.type = show ? "text" : "password";
  text.textContent = show ? button.dataset.hide : button.dataset.show;
};
for (const button of document.querySelectorAll("button.reveal")) {
  button.hidden = false;
  button.addEventListener("click", () => reveal(button, button.parentElement.querySelector("input").type === "password"));
}

// A form is sent once until the page is shown again: another click would be refused, and hide what the
// first has done. One whose response is a file (data-file) leaves the page in place. The properties of a
// form may be its controls; their names have no capital letters.
const sendable = (form) => form.removeAttribute("data-sent");
const sent = (form) => form.hasAttribute("data-sent");
let latest = null; // the form that is being sent, which may end the sending of another
const allSendable = (but) => [...document.querySelectorAll("form[data-sent]")].filter((form) => form !== but).forEach(sendable);
addEventListener("pageshow", () => allSendable(null));
// The visitor has stopped the loading, or the response is a file. Not every browser says so.
window.navigation?.addEventListener("navigateerror", () => allSendable(latest));

addEventListener("submit", (event) => {
  const form = event.target;
  for (const button of form.querySelectorAll("button.reveal")) reveal(button, false);
  // The site judges what was typed. Of a part of a date or number the browser would send nothing.
  const unreadable = [...form.querySelectorAll("input")].find((control) => control.validity?.badInput);
  if (event.defaultPrevented) return;
  if (sent(form)) {
    event.preventDefault();
  } else if (unreadable) {
    event.preventDefault();
    unreadable.reportValidity();
  } else if (form.getAttribute("method") === "post") {
    form.setAttribute("data-sent", "");
    latest = form;
    setTimeout(() => { latest = null; });
    if (form.hasAttribute("data-file")) setTimeout(sendable, 10_000, form);
  }
});

// Times are shown in the visitor's own time zone, without scripts in UTC, as those with data-utc
// always are. Those with data-ago say how long ago they were, for a month; those with data-day are
// a day.
const localTimes = (root) => {
  const language = document.documentElement.lang;
  const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
  const day = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
  const ago = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  for (const element of root.querySelectorAll("time[datetime]:is(:not([data-utc]), [data-ago])")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const seconds = Math.max(0, (Date.now() - at) / 1000);
    const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60]].find(([, size]) => seconds >= size) ?? ["second", Infinity];
    const relative = "ago" in element.dataset && seconds < 30 * 86400;
    const local = () => ("day" in element.dataset ? day : format).format(at);
    const exact = "utc" in element.dataset ? (element.dataset.utc ||= element.textContent) : local();
    element.title = relative ? exact : element.textContent;
    element.textContent = relative ? ago.format(-Math.floor(seconds / size) || 0, unit) : exact;
  }
};

// attempt is for what a page does without: a browser may lack a function, or an extension replace it.
const attempt = (nicety) => {
  try {
    nicety();
  } catch (error) {
    console.info(error);
  }
};

attempt(() => localTimes(document));
document.addEventListener("htmx:load", (event) => attempt(() => localTimes(event.detail.elt)));

// Where the tabs scroll sideways, the current one is in their middle. The page does not scroll.
const showTab = () => {
  const tab = document.querySelector(".tabs [aria-current]");
  const list = tab?.closest("ul");
  if (!list) return;
  const [at, frame] = [tab.getBoundingClientRect(), list.getBoundingClientRect()];
  list.scrollLeft += at.left + at.width / 2 - frame.left - frame.width / 2;
};
attempt(showTab);
addEventListener("resize", () => attempt(showTab));

// Code with data-copy gets a button of that name, which copies it and says so with data-copied.
// Browsers have a clipboard over HTTPS and on localhost only.
if (navigator.clipboard) {
  for (const code of document.querySelectorAll("pre[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button quiet small copy";
    button.textContent = code.dataset.copy;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        return; // the browser does not permit it
      }
      button.textContent = code.dataset.copied;
      setTimeout(() => { button.textContent = code.dataset.copy; }, 3000);
    });
    const frame = document.createElement("div");
    frame.className = "copyable";
    code.replaceWith(frame);
    frame.append(code, button);
  }
}
