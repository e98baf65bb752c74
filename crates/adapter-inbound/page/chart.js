// A line chart of the last minutes, drawn by uPlot; its legend tells the same in text.

import { el } from "./dom.js";
import { t } from "./i18n.js";

const POINTS = 150;
const HEIGHT = 180;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A chart of `lines` (their names); `add(seconds, values)` draws one more point. */
export class Chart {
  constructor(title, lines, signal) {
    this.lines = lines;
    this.data = [[], ...lines.map(() => [])];
    this.plot = el("div");
    this.place = el("section", { class: "chart", "aria-label": title }, el("h3", {}, title), this.plot);
    const redraw = () => this.draw();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const size = new ResizeObserver(() => this.drawn?.setSize({ width: this.plot.clientWidth, height: HEIGHT }));
    scheme.addEventListener("change", redraw);
    size.observe(this.plot);
    signal.addEventListener("abort", () => {
      scheme.removeEventListener("change", redraw);
      size.disconnect();
      this.drawn?.destroy();
    });
  }

  add(seconds, values) {
    [seconds, ...values].forEach((value, n) => {
      this.data[n].push(value);
      if (this.data[n].length > POINTS) this.data[n].shift();
    });
    if (this.drawn) this.drawn.setData(this.data);
    else this.draw();
    // Without a pointer over the chart, its legend tells the newest values.
    this.drawn?.setLegend({ idx: this.data[0].length - 1 });
  }

  draw() {
    if (!this.plot.clientWidth) return;
    this.drawn?.destroy();
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
    const line = (label, n) => ({ label, stroke: style(`--series-${n + 1}`), width: 2, points: { show: false } });
    this.drawn = new window.uPlot({
      width: this.plot.clientWidth,
      height: HEIGHT,
      legend: { live: true },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1e-3) * 1.1] } },
      axes: [axis, { ...axis, size: 60 }],
      series: [{ label: t("chart.time") }, ...this.lines.map(line)],
    }, this.data, this.plot);
  }
}
