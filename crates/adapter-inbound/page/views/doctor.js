// What is wrong with database, broker and settings, and the cure of each finding.

import { get } from "../api.js";
import { el } from "../dom.js";
import { t } from "../i18n.js";
import { table } from "../table.js";

export async function show(content, _, signal) {
  const place = el("div", { "aria-live": "polite" });
  const look = async () => {
    place.replaceChildren(el("p", { class: "quiet" }, t("doctor.looking")));
    try {
      place.replaceChildren(...found(await get("doctor", {}, signal)));
    } catch (error) {
      place.replaceChildren();
      throw error;
    }
  };
  // It reads all open events: it looks when somebody asks it to, and not again by itself.
  const again = el("button", { type: "button", onclick: look }, t("doctor.again"));
  content.append(el("h2", {}, t("nav.doctor")), el("p", { class: "quiet" }, t("doctor.explain")), el("div", { class: "row" }, again), place);
  await look();
}

function found({ findings, notLookedAt }) {
  const columns = [
    { title: t("doctor.check"), cell: (finding) => finding.check },
    { title: t("doctor.problem"), cell: (finding) => finding.problem, kind: "long" },
    { title: t("doctor.subject"), cell: (finding) => finding.subject, kind: "long" },
    { title: t("doctor.cure"), cell: (finding) => finding.cure, kind: "long" },
  ];
  const result = findings.length ? table(columns, findings) : el("p", { class: "well" }, t("doctor.well"));
  const unseen = notLookedAt.length ? el("p", { class: "quiet" }, t("doctor.unseen", { checks: notLookedAt.join(", ") })) : "";
  return [result, unseen];
}
