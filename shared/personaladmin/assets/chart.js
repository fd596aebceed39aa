// Draws the chart: two plots, one above the other, both with marks for the events of
// the plugin.
"use strict";

const PLOTS = [
  { name: "requests", keys: ["requests", "errors"], min: 5, labelled: true },
  { name: "latency", keys: ["p50", "p99"], min: 2, labelled: false },
];

// The marks by kind of event; any other kind gets the mark of a refusal.
const MARKS = {
  switched: { sign: "→", colour: "--mark-switched" },
  rolled_back: { sign: "↩", colour: "--mark-rolled-back" },
  fell_back: { sign: "↩", colour: "--mark-rolled-back" },
  lost: { sign: "✕", colour: "--mark-lost" },
  gave_up: { sign: "✕", colour: "--mark-lost" },
  restarted: { sign: "↻", colour: "--mark-restarted" },
  refused: { sign: "⊘", colour: "--mark-refused" },
};

const LABEL_ROWS = 4;
const LABEL_HEIGHT = 16; // pixels

// colour returns what a custom property is as a colour, which a canvas needs: its own value may
// be light-dark().
const colour = (name) => {
  const probe = document.getElementById("traffic").appendChild(document.createElement("span"));
  probe.style.color = `var(${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
};

// drawMarks returns a hook that draws a line for every mark.
const drawMarks = (traffic, labelled) => (plot) => {
  const { ctx, bbox } = plot;
  ctx.save();
  const label = labelled ? labeller(plot) : () => {};
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of traffic.marks) {
    const x = plot.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const { sign, colour: name } = MARKS[mark.kind] ?? MARKS.refused;
    ctx.strokeStyle = ctx.fillStyle = colour(name);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    label(x, `${sign} ${mark.version}`);
  }
  ctx.restore();
};

// labeller returns a function that writes a label above the plot, in the first row
// with room for it. Without room it leaves the label out: the list below has it.
const labeller = ({ ctx, bbox, root }) => {
  const ends = Array(LABEL_ROWS).fill(-Infinity); // of the labels in each row
  ctx.font = `600 ${12 * devicePixelRatio}px ${getComputedStyle(root).fontFamily}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  return (x, text) => {
    const width = ctx.measureText(text).width;
    const left = Math.min(x - 2 * devicePixelRatio, bbox.left + bbox.width - width);
    const row = ends.findIndex((end) => end < left);
    if (row < 0) return;
    ends[row] = left + width + 8 * devicePixelRatio;
    ctx.fillText(text, left, bbox.top - (row * LABEL_HEIGHT + 2) * devicePixelRatio);
  };
};

// Marks every second with errors by a dot, because few errors among many requests are
// easily overlooked.
const failures = () => ({
  show: true,
  size: 8,
  fill: colour("--chart-errors"),
  filter: (plot, series) => plot.data[series].flatMap((value, i) => (value > 0 ? [i] : [])),
});

// newPlot draws one of PLOTS into an element. words has its texts in the language of
// the page; clock and count format times and numbers.
const newPlot = ({ keys, min, labelled }, traffic, at, { words, clock, count }) => {
  const lines = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--muted"), grid: lines, ticks: lines };
  const above = labelled ? LABEL_ROWS * LABEL_HEIGHT + 4 : 8;
  return new uPlot({
    width: at.clientWidth,
    height: 190 + above,
    padding: [above, 12, 0, 0],
    cursor: { sync: { key: "traffic" }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [traffic.until - WINDOW, traffic.until - 1] },
      y: { range: (_plot, _min, max) => [0, Math.max(min, (max ?? 0) * 1.1)] },
    },
    axes: [
      { ...axis, space: 76, values: (_plot, times) => times.map((time) => clock.format(time * 1000)) },
      { ...axis, size: 56, values: (_plot, values) => values.map((value) => count.format(value)) },
    ],
    series: [
      { label: words.time, value: (_plot, time) => (time == null ? "" : clock.format(time * 1000)) },
      ...keys.map((key, i) => ({
        label: words[key],
        stroke: colour(`--chart-${key}`),
        fill: key === "requests" ? colour("--chart-requests-soft") : undefined,
        width: 2,
        dash: i === 0 ? [] : [6, 3],
        points: key === "errors" ? failures() : { show: false },
        value: (_plot, value) => (value == null ? "—" : count.format(value)),
      })),
    ],
    hooks: { draw: [drawMarks(traffic, labelled)] },
  }, [[], ...keys.map(() => [])], at);
};

// Chart is both plots.
class Chart {
  #traffic;
  #root;
  #plots = [];
  #language = {
    clock: new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: "UTC" }),
    count: new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 2 }),
  };

  constructor(traffic, root) {
    this.#traffic = traffic;
    this.#root = root;
    this.#language.words = root.dataset;
  }

  // build creates the plots again, with the current colours.
  build() {
    for (const { plot } of this.#plots) plot.destroy();
    this.#plots = PLOTS.map((kind) => {
      const at = this.#root.querySelector(`[data-plot=${kind.name}]`);
      return { kind, at, plot: newPlot(kind, this.#traffic, at, this.#language) };
    });
  }

  // show draws an operation. The legend shows the last second unless the pointer is on
  // another one.
  show(operation) {
    for (const { plot, kind } of this.#plots) {
      const columns = this.#traffic.columns(operation, kind.keys);
      plot.setData(columns);
      if (plot.cursor.idx == null) plot.setLegend({ idx: columns[0].length - 1 }, false);
    }
  }

  fit() {
    for (const { plot, at } of this.#plots) plot.setSize({ width: at.clientWidth, height: plot.height });
  }
}
