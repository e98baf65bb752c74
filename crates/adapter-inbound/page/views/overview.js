// What is going on: the figures of the database, and the rates of the process that serves this page.

import { get, getText } from "../api.js";
import { Chart } from "../chart.js";
import { el, every, notice } from "../dom.js";
import { age, count } from "../format.js";
import { t } from "../i18n.js";
import { buckets, by, parse, quantile, sum } from "../metrics.js";
import { CLASSES } from "../names.js";

const SECONDS = 2;
/** Lags are taken over this many looks: one alone may have seen no event. */
const LOOKS = 15;
const PERCENTILES = [50, 95, 99];

export async function show(content, _, signal) {
  const tiles = el("dl", { class: "tiles" });
  const pauses = el("div");
  const backlog = new Chart(t("chart.backlog"), ["PENDING", "IN_FLIGHT", "FAILED", "DEAD"], signal);
  const rate = new Chart(t("chart.rate"), [t("chart.published")], signal);
  const lag = new Chart(t("chart.lag"), PERCENTILES.map((p) => `p${p}`), signal);
  const failures = new Chart(t("chart.failures"), CLASSES, signal);
  content.append(el("h2", {}, t("nav.overview")), pauses, tiles,
    el("div", { class: "charts" }, [backlog, rate, lag, failures].map(({ place }) => place)),
    el("p", { class: "quiet" }, t("overview.scope")));
  const looks = [];
  let failed = false;
  every(SECONDS, signal, async () => {
    try {
      const [status, text] = await Promise.all([get("outbox/status", {}, signal), getText("metrics", signal)]);
      const now = Date.now() / 1000;
      tiles.replaceChildren(...figures(status));
      pauses.replaceChildren(...paused(status.paused));
      backlog.add(now, [status.pending, status.inFlight, status.failed, status.dead]);
      looks.push(look(now, parse(text)));
      if (looks.length > LOOKS) looks.shift();
      const [first, before, last] = [looks[0], looks.at(-2), looks.at(-1)];
      if (before) {
        const perSecond = (name) => Math.max(0, last[name] - before[name]) / (last.at - before.at);
        rate.add(now, [perSecond("published")]);
        lag.add(now, PERCENTILES.map((p) => quantile(p / 100, first.lag, last.lag)));
        const of = (look, name) => look.failures[name] ?? 0;
        failures.add(now, CLASSES.map((name) => Math.max(0, of(last, name) - of(before, name)) / (last.at - before.at)));
      }
      if (failed) notice("");
      failed = false;
    } catch (error) {
      if (signal.aborted) return;
      failed = true;
      notice(t("failed", { reason: error.message }), true);
    }
  });
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
    tile("pending", count(status.pending, limit)),
    tile("inFlight", count(status.inFlight, limit)),
    tile("failed", count(status.failed, limit)),
    tile("dead", count(status.dead, limit), status.dead > 0),
    tile("blockedAggregates", count(status.blockedAggregates, limit), status.blockedAggregates > 0),
    tile("oldestPending", age(status.oldestPendingAgeSeconds)),
    tile("oldestInFlight", age(status.oldestInFlightAgeSeconds)),
    tile("oldestSnapshot", age(status.oldestSnapshotAgeSeconds)),
  ];
}

function paused(pauses) {
  const what = ({ everything, aggregateType }) => (everything ? t("pause.everything") : aggregateType);
  return pauses.map((pause) => el("p", { role: "alert" }, t("overview.paused", { what: what(pause), who: pause.operator, age: age(pause.ageSeconds) })));
}
