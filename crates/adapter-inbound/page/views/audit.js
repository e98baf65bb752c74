// What operators have changed, newest first.

import { get } from "../api.js";
import { el } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { pages } from "../table.js";
import { eventLink } from "./events.js";

const LIMIT = 50;

export async function show(content, _, signal) {
  const { place, turn } = pages(columns(), (before) => get("outbox/audit", { before, limit: LIMIT }, signal));
  content.append(el("h2", {}, t("nav.audit")), place);
  await turn();
}

function columns() {
  const about = ({ events, aggregateType, aggregateId, consumer, action }) => {
    if (aggregateId) return [aggregateType, aggregateId, ...events].join(" ");
    if (consumer) return [consumer, events.length === 1 ? events[0] : t("audit.events", { count: number(events.length) })].join(" ");
    if (events.length === 1) return eventLink(events[0]);
    if (events.length) return t("audit.events", { count: number(events.length) });
    return aggregateType ?? (["pause", "resume"].includes(action) ? t("pause.everything") : "");
  };
  return [
    { title: t("audit.number"), cell: (entry) => String(entry.number) },
    { title: t("audit.at"), cell: (entry) => time(entry.actedAt) },
    { title: t("audit.operator"), cell: (entry) => entry.operator },
    { title: t("audit.action"), cell: (entry) => t(`action.${entry.action}`) },
    { title: t("audit.about"), cell: about },
    { title: t("audit.affected"), cell: (entry) => number(entry.affected) },
    { title: t("audit.reason"), cell: (entry) => entry.reason ?? "", kind: "long" },
  ];
}
