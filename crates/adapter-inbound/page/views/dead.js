// The dead letters by why they died, and what can be done with a whole group.

import { actOnMany } from "../actions.js";
import { get } from "../api.js";
import { el } from "../dom.js";
import { age, count } from "../format.js";
import { t } from "../i18n.js";
import { change, table } from "../table.js";
import { listed } from "./events.js";

export async function show(content, _, signal) {
  const place = el("div");
  content.append(el("h2", {}, t("nav.dead")), el("p", { class: "quiet" }, t("dead.explain")), place);
  const draw = async () => {
    const { groups, countLimit } = await get("outbox/dead", {}, signal);
    change(place, everything(groups, draw, signal), table(columns(countLimit, draw, signal), groups));
  };
  await draw();
}

function button(action, which, text, done, signal) {
  const act = async () => { if (await actOnMany(action, which, signal)) await done(); };
  return el("button", { type: "button", class: action === "discard" ? "danger" : null, "data-action": action, onclick: act }, text);
}

function everything(groups, done, signal) {
  if (!groups.length) return "";
  const each = (action) => button(action, { all: true }, t(`dead.all.${action}`), done, signal);
  return el("div", { class: "row" }, each("requeue"), each("discard"));
}

function columns(limit, done, signal) {
  const known = ({ class: failure, aggregateType, eventType }) => ({ class: failure, aggregateType, eventType });
  const link = (group) => el("a", { href: listed({ status: "DEAD", unresolved: "true", ...known(group) }) }, t("dead.list"));
  // Without a class the filter would find the other groups of the same types as well.
  const actions = (group) => group.class
    ? el("span", {}, ["requeue", "discard"].map((action) => [button(action, { filter: known(group) }, t(`action.${action}`), done, signal), " "]))
    : el("span", { class: "quiet" }, t("dead.noClass"));
  return [
    { title: t("dead.class"), cell: (group) => group.class ?? t("none") },
    { title: t("filter.aggregateType"), cell: (group) => group.aggregateType },
    { title: t("event.type"), cell: (group) => group.eventType },
    { title: t("dead.events"), cell: (group) => count(group.events, limit) },
    { title: t("dead.oldest"), cell: (group) => age(group.oldestAgeSeconds) },
    { title: t("dead.example"), cell: (group) => group.example ?? "", kind: "long" },
    { title: t("dead.actions"), cell: actions },
    { title: t("nav.events"), cell: link },
  ];
}
