// Aggregates that wait behind a DEAD event, the longest waiting first.

import { get } from "../api.js";
import { el } from "../dom.js";
import { age, count } from "../format.js";
import { t } from "../i18n.js";
import { table } from "../table.js";
import { eventLink } from "./events.js";

const LIMIT = 200;
const DEEPEST = 1000;

export async function show(content, _, signal) {
  content.append(el("h2", {}, t("nav.blocked")));
  const { items } = await get("outbox/blocked", { limit: LIMIT }, signal);
  const more = items.length >= LIMIT ? el("p", { class: "quiet" }, t("blocked.more", { count: String(LIMIT) })) : "";
  content.append(el("p", { class: "quiet" }, t("blocked.explain")), table([
    { title: t("event.aggregate"), cell: (row) => `${row.aggregateType} ${row.aggregateId}`, kind: "long" },
    { title: t("blocked.head"), cell: (row) => eventLink(row.head), kind: "id" },
    { title: t("blocked.depth"), cell: (row) => count(row.depth, DEEPEST) },
    { title: t("blocked.age"), cell: (row) => age(row.ageSeconds) },
    { title: t("event.lastError"), cell: (row) => row.reason ?? "", kind: "long" },
  ], items), more);
}
