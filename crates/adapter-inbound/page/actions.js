// Changes of events: one of them, or all that match, which are counted before anybody is asked.

import { post } from "./api.js";
import { confirm } from "./confirm.js";
import { el, notice } from "./dom.js";
import { number } from "./format.js";
import { t } from "./i18n.js";

/** Acts on one event; true when it is done. */
export async function actOnOne(action, id) {
  const by = await confirm(t(`action.${action}`), t("confirm.one", { id }));
  if (!by) return false;
  await post(`outbox/events/${id}/${action}`, by);
  notice(t("done.one"));
  return true;
}

/** Acts on all that `which` selects; true when anything may have changed. */
export async function actOnMany(action, which, signal) {
  notice(t("counting"));
  const { events, interrupted } = await post(`outbox/${action}`, { ...which, dryRun: true }, signal);
  notice("");
  const key = interrupted ? "confirm.atLeast" : "confirm.many";
  const by = await confirm(t(`action.${action}`), t(key, { count: number(events) }));
  if (!by) return false;
  await untilDone(action, { ...which, ...by }, signal);
  return true;
}

/** One request works for a while and says that it was interrupted; the same one goes on behind what it has been through. */
async function untilDone(action, request, signal) {
  let [done, stopped, after] = [0, false, undefined];
  const progress = el("p", { "aria-live": "polite" });
  const stop = el("button", { type: "button", onclick: () => { stopped = true; } }, t("progress.stop"));
  const dialog = el("dialog", { class: "progress" }, progress, stop);
  dialog.addEventListener("cancel", () => { stopped = true; });
  document.body.append(dialog);
  dialog.showModal();
  try {
    for (let more = true; more && !stopped && !signal.aborted;) {
      progress.textContent = t("progress.count", { count: number(done) });
      const { events, interrupted, next } = await post(`outbox/${action}`, { ...request, after });
      done += events;
      [more, after] = [interrupted, next];
    }
    notice(t("done.many", { count: number(done) }));
  } finally {
    dialog.close();
    dialog.remove();
  }
}
