// What is going on: figures, rate and lag of the whole outbox, and what only the process that serves this page knows.

import { get, getText } from "../api.js";
import { Chart } from "../chart.js";
import { el, every, notice } from "../dom.js";
import { age, count, number } from "../format.js";
import { t } from "../i18n.js";
import { buckets, by, parse, quantile, sum } from "../metrics.js";
import { CLASSES } from "../names.js";

const SECONDS = 2;
/** Lags of this process are taken over this many looks: one alone may have seen no event. */
const LOOKS = 15;
const PERCENTILES = [50, 95, 99];

export async function show(content, _, signal) {
  const [tiles, pauses, place] = [el("dl", { class: "tiles" }), el("div"), el("div")];
  content.append(el("h2", {}, t("nav.overview")), pauses, tiles, place);
  const looks = [];
  let [charts, failed] = [null, false];
  every(SECONDS, signal, async () => {
    try {
      const [status, text] = await Promise.all([get("outbox/status", {}, signal), getText("metrics", signal)]);
      const now = Date.now() / 1000;
      tiles.replaceChildren(...figures(status));
      pauses.replaceChildren(...paused(status.paused));
      charts ??= draw(place, status.recentPublishing !== null, signal);
      looks.push(look(now, parse(text)));
      if (looks.length > LOOKS) looks.shift();
      add(charts, now, status, looks);
      if (failed) notice("");
      failed = false;
    } catch (error) {
      if (signal.aborted) return;
      failed = true;
      notice(t("failed", { reason: error.message }), true);
    }
  });
}

/** The charts, which say whose work they show: where published events are deleted, the database tells nothing of them. */
function draw(place, whole, signal) {
  const charts = {
    backlog: new Chart(t("chart.backlog"), ["PENDING", "IN_FLIGHT", "FAILED", "DEAD"], signal),
    rate: new Chart(t(whole ? "chart.rate" : "chart.rateOfProcess"), [t("chart.published")], signal),
    lag: new Chart(t(whole ? "chart.lag" : "chart.lagOfProcess"), PERCENTILES.map((p) => `p${p}`), signal),
    failures: new Chart(t("chart.failures"), CLASSES, signal),
  };
  place.replaceChildren(
    el("div", { class: "charts" }, Object.values(charts).map((chart) => chart.place)),
    el("p", { class: "quiet" }, t(whole ? "overview.scope" : "overview.scopeOfProcess")));
  return charts;
}

function add({ backlog, rate, lag, failures }, now, status, looks) {
  backlog.add(now, [status.pending, status.inFlight, status.failed, status.dead]);
  const recent = status.recentPublishing;
  if (recent) {
    rate.add(now, [recent.perSecond]);
    lag.add(now, PERCENTILES.map((p) => recent[`lagP${p}Seconds`]));
  }
  const [first, before, last] = [looks[0], looks.at(-2), looks.at(-1)];
  if (!before) return;
  const seconds = last.at - before.at;
  if (!recent) {
    rate.add(now, [Math.max(0, last.published - before.published) / seconds]);
    lag.add(now, PERCENTILES.map((p) => quantile(p / 100, first.lag, last.lag)));
  }
  const of = (look, name) => look.failures[name] ?? 0;
  failures.add(now, CLASSES.map((name) => Math.max(0, of(last, name) - of(before, name)) / seconds));
}

function look(at, samples) {
  return {
    at,
    published: sum(samples, "outbox_published_total"),
    lag: buckets(samples, "outbox_lag_seconds"),
    failures: by(samples, "outbox_publish_failures_total", "class"),
  };
}

function figures(status) {
  const limit = status.countLimit;
  const tile = (key, value, bad = false) => el("div", { class: bad ? "tile bad" : "tile", "data-figure": key }, el("dt", {}, t(`figure.${key}`)), el("dd", {}, value));
  return [
    tile("pending", pending(status)),
    tile("inFlight", count(status.inFlight, limit)),
    tile("failed", count(status.failed, limit)),
    tile("dead", count(status.dead, limit), status.dead > 0),
    tile("blockedAggregates", count(status.blockedAggregates, limit), status.blockedAggregates > 0),
    tile("oldestPending", age(status.oldestPendingAgeSeconds)),
    tile("oldestInFlight", age(status.oldestInFlightAgeSeconds)),
    tile("oldestSnapshot", age(status.oldestSnapshotAgeSeconds)),
  ];
}

/** Beside so many failed or dead ones, what is pending cannot all be told. */
function pending({ pending: least, failed, dead, countLimit }) {
  return Math.max(failed, dead) < countLimit ? count(least, countLimit) : t("count.atLeast", { count: number(least) });
}

function paused(pauses) {
  const what = ({ everything, aggregateType }) => (everything ? t("pause.everything") : aggregateType);
  return pauses.map((pause) => el("p", { role: "alert" }, t("overview.paused", { what: what(pause), who: pause.operator, age: age(pause.ageSeconds) })));
}
