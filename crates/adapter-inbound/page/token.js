// The bearer token: asked for when the server wants one, kept for this tab alone.

import { el } from "./dom.js";
import { t } from "./i18n.js";

const KEY = "token";
let asking = null;

export const token = () => sessionStorage.getItem(KEY);

export function forget() {
  sessionStorage.removeItem(KEY);
  location.reload();
}

/** Asks once, however many requests wait for the answer. */
export function ask(refused) {
  asking ??= prompt(refused).finally(() => { asking = null; });
  return asking;
}

function prompt(refused) {
  return new Promise((resolve) => {
    const input = el("input", { type: "password", name: "token", autocomplete: "off", required: true, autofocus: true });
    const dialog = el("dialog", { "aria-labelledby": "token-title" },
      el("form", { method: "dialog" },
        el("h2", { id: "token-title" }, t("token.title")),
        el("p", {}, t(refused ? "token.refused" : "token.explain")),
        el("label", {}, t("token.label"), input),
        el("button", { id: "token-submit" }, t("token.submit"))));
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value);
      dialog.remove();
      document.dispatchEvent(new Event("token"));
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
