// The question before a change: what it is about, who makes it, and why.

import { el } from "./dom.js";
import { t } from "./i18n.js";

const OPERATOR = "operator";

/** Resolves to `{ by, reason }`, which the request takes as they are, or to null. */
export function confirm(title, explanation) {
  return new Promise((resolve) => {
    const by = el("input", { name: "by", maxlength: "100", value: sessionStorage.getItem(OPERATOR) ?? "" });
    const reason = el("input", { name: "reason", maxlength: "500", autofocus: true });
    const dialog = el("dialog", { "aria-labelledby": "confirm-title", class: "confirm" },
      el("form", { method: "dialog" },
        el("h2", { id: "confirm-title" }, title),
        el("p", {}, explanation),
        el("label", {}, t("confirm.by"), by),
        el("label", {}, t("confirm.reason"), reason),
        el("div", { class: "row" },
          el("button", { value: "yes", class: "danger" }, title),
          el("button", { value: "no", formnovalidate: true }, t("confirm.cancel")))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue !== "yes") return resolve(null);
      sessionStorage.setItem(OPERATOR, by.value);
      resolve({ by: by.value || undefined, reason: reason.value || undefined });
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
