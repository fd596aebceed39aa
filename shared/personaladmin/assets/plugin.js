// The page of the plugin: polls the numbers of the chart every second and announces
// changes to screen readers.
"use strict";

// Announces the summary once, when it changes.
document.addEventListener("htmx:afterSettle", () => {
  const announced = document.getElementById("plugin-summary");
  const summary = document.querySelector("[data-summary]");
  if (summary && announced.textContent !== summary.textContent) announced.textContent = summary.textContent;
});

// everySecond calls work again a second after it has returned, while it returns true
// and the page is visible.
const everySecond = (work) => {
  let timer = 0;
  let working = false;
  const next = async () => {
    clearTimeout(timer);
    if (working || document.hidden) return;
    working = true;
    const again = await work();
    working = false;
    if (again) timer = setTimeout(next, 1000);
  };
  document.addEventListener("visibilitychange", next);
  next();
};

const startChart = (root) => {
  const traffic = new Traffic();
  const chart = new Chart(traffic, root);
  const state = document.getElementById("traffic-state");
  const choice = document.getElementById("traffic-operation");

  const say = (text) => {
    if (state.textContent !== text) state.textContent = text;
  };
  const draw = () => chart.show(choice.value);
  const redraw = () => {
    chart.build();
    draw();
  };
  const offerOperations = () => {
    const offered = new Set(Array.from(choice.options, (option) => option.value));
    for (const name of traffic.names) {
      if (!offered.has(name)) choice.add(new Option(name, name));
    }
  };
  const poll = async () => {
    try {
      const response = await fetch(`${root.dataset.url}?since=${traffic.until}`, {
        headers: { "Personal-Poll": "true" },
        signal: AbortSignal.timeout(5000),
      });
      if (response.status === 401) {
        say(root.dataset.over);
        return false;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      traffic.add(await response.json());
      say("");
      offerOperations();
      draw();
    } catch {
      say(root.dataset.reconnecting); // polls again in a second
    }
    return true;
  };

  redraw();
  choice.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => chart.fit()).observe(root);
  everySecond(poll);
};

startChart(document.getElementById("traffic"));
