// The settings of the process that serves this page; the server has taken the secrets out.

import { get } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { table } from "../table.js";

export async function show(content, _, signal) {
  const settings = await get("settings", {}, signal);
  const sections = Object.entries(settings).map(([section, values]) => [
    el("h3", {}, section),
    table([
      { title: t("settings.key"), cell: ([key]) => key, kind: "id" },
      { title: t("settings.value"), cell: ([, value]) => value, kind: "long" },
    ], flat(section, values)),
  ]);
  content.append(el("h2", {}, t("nav.settings")), el("p", { class: "quiet" }, t("settings.explain")), ...sections.flat());
}

/** Pairs of a whole key and a value as text. */
function flat(path, value) {
  const isTable = value !== null && typeof value === "object" && !Array.isArray(value);
  if (isTable) return Object.entries(value).flatMap(([key, inner]) => flat(`${path}.${key}`, inner));
  return [[path, value === null ? t("none") : typeof value === "string" ? value : JSON.stringify(value)]];
}
