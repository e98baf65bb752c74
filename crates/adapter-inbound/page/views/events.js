// Events by what is known of them, a page at a time. The filter stands in the address.

import { get } from "../api.js";
import { el } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { CLASSES, STATUSES } from "../names.js";
import { pages } from "../table.js";

const FIELDS = ["status", "aggregateType", "aggregateId", "eventType", "class", "olderThanSeconds", "unresolved"];
const LIMIT = 50;

export async function show(content, query, signal) {
  const filter = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const { place, turn } = pages(columns(), (after) => get("outbox/events", { ...filter, after, limit: LIMIT }, signal));
  content.append(el("h2", {}, t("nav.events")), form(filter), place);
  await turn();
}

/** The address of the list under a filter. */
export const listed = (filter) => `#events?${new URLSearchParams(Object.entries(filter).filter(([, value]) => value))}`;

export const eventLink = (id) => el("a", { href: `#event?id=${id}` }, id);

export const statusOf = (event) => {
  const text = event.resolution ? `${event.status} (${t(`resolution.${event.resolution}`)})` : event.status;
  return el("span", { class: event.resolution ? "" : `status-${event.status}` }, text);
};

function columns() {
  return [
    { title: t("event.id"), cell: (event) => eventLink(event.id), kind: "id" },
    { title: t("event.status"), cell: statusOf },
    { title: t("event.aggregate"), cell: (event) => `${event.aggregateType} ${event.aggregateId}`, kind: "long" },
    { title: t("event.type"), cell: (event) => event.eventType },
    { title: t("event.attempts"), cell: (event) => number(event.attempts) },
    { title: t("event.created"), cell: (event) => time(event.createdAt) },
    { title: t("event.lastError"), cell: (event) => event.lastError ?? "", kind: "long" },
  ];
}

function form(filter) {
  const choice = (name, label, values) => el("label", {}, label,
    el("select", { name }, ["", ...values].map((value) => el("option", { value, selected: value === filter[name] }, value || t("filter.any")))));
  const text = (name, label, more = {}) => el("label", {}, label, el("input", { name, value: filter[name], ...more }));
  const unresolved = el("input", { type: "checkbox", name: "unresolved", value: "true", checked: filter.unresolved === "true" });
  const submit = (event) => {
    event.preventDefault();
    location.hash = listed(Object.fromEntries(new FormData(event.target)));
  };
  return el("form", { class: "filter", onsubmit: submit },
    choice("status", t("event.status"), STATUSES),
    text("aggregateType", t("filter.aggregateType"), { maxlength: "100" }),
    text("aggregateId", t("filter.aggregateId"), { maxlength: "200" }),
    text("eventType", t("event.type"), { maxlength: "100" }),
    choice("class", t("dead.class"), CLASSES),
    text("olderThanSeconds", t("filter.olderThan"), { type: "number", min: "0", max: "4294967295" }),
    el("label", {}, t("filter.unresolved"), unresolved),
    el("button", {}, t("filter.submit")));
}
