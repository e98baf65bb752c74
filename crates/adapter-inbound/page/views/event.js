// One event: what is known of it, what has happened to it, and what can be done.

import { actOnOne } from "../actions.js";
import { get } from "../api.js";
import { el } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { change } from "../table.js";
import { eventLink, listed, statusOf } from "./events.js";

export async function show(content, query, signal) {
  const id = query.get("id") ?? "";
  const path = `outbox/events/${encodeURIComponent(id)}`;
  const place = el("div");
  content.append(el("h2", {}, t("event.title")), place);
  const draw = async () => {
    const [event, audit] = await Promise.all([get(path, {}, signal), get(`${path}/audit`, {}, signal)]);
    change(place, buttons(event, draw), fields(event), el("h3", {}, t("event.timeline")), timeline(event, audit.items));
  };
  await draw();
}

function buttons(event, done) {
  const button = (action, kind) => el("button", { type: "button", class: kind, "data-action": action, onclick: async () => { if (await actOnOne(action, event.id)) await done(); } }, t(`action.${action}`));
  const dead = event.status === "DEAD";
  return el("div", { class: "row" },
    dead ? button("requeue") : null,
    dead && !event.resolution ? button("discard", "danger") : null,
    event.status === "PUBLISHED" ? button("replay") : null);
}

function fields(event) {
  const { aggregateType, aggregateId } = event;
  const rows = [
    ["event.id", event.id],
    ["event.status", statusOf(event)],
    ["event.aggregate", el("a", { href: listed({ aggregateType, aggregateId }) }, `${aggregateType} ${aggregateId}`)],
    ["event.type", event.eventType],
    ["event.sequence", String(event.sequence)],
    ["event.attempts", number(event.attempts)],
    ["event.replays", number(event.replays)],
    ["event.lastError", event.lastError],
    ["event.holder", event.holder],
    ["event.blockedBehind", event.blockedBehind && eventLink(event.blockedBehind)],
  ];
  return el("dl", { class: "fields" }, rows.filter(([, value]) => value).map(([key, value]) => [el("dt", {}, t(key)), el("dd", {}, value)]));
}

function timeline(event, audit) {
  const done = (entry) => t("timeline.action", { action: t(`action.${entry.action}`), who: entry.operator, why: entry.reason ?? t("timeline.noReason") });
  const steps = [
    [event.createdAt, t("timeline.created")],
    [event.publishedAt, t("timeline.published")],
    [event.resolution === "skipped" ? event.resolvedAt : null, t("timeline.skipped")],
    [event.dueAt, t("timeline.due")],
    [event.leaseExpiresAt, t("timeline.lease", { holder: event.holder ?? "" })],
    ...audit.map((entry) => [entry.actedAt, done(entry)]),
  ];
  const known = steps.filter(([at]) => at).sort(([a], [b]) => new Date(a) - new Date(b));
  const step = ([at, text]) => el("li", { class: new Date(at) > new Date() ? "ahead" : null }, el("time", { datetime: at, class: "quiet" }, time(at)), " ", text);
  return el("ol", { class: "timeline" }, known.map(step));
}
