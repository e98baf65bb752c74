// Which view is shown: the part of the address behind # says it, so that a view can be linked to.

import { notice } from "./dom.js";
import { preferred, t, use } from "./i18n.js";
import { forget, token } from "./token.js";
import * as audit from "./views/audit.js";
import * as blocked from "./views/blocked.js";
import * as dead from "./views/dead.js";
import * as doctor from "./views/doctor.js";
import * as event from "./views/event.js";
import * as events from "./views/events.js";
import * as overview from "./views/overview.js";
import * as relays from "./views/relays.js";
import * as settings from "./views/settings.js";

const VIEWS = { audit, blocked, dead, doctor, event, events, overview, relays, settings };
let left = new AbortController();

/** Shows what the address says, and ends what the view before was doing. */
async function show({ keepFocus = false } = {}) {
  const [name, query] = location.hash.slice(1).split("?");
  const content = document.getElementById("content");
  // The link that skips the header leads to what is shown already.
  if (name === "content" && content.dataset.view) return;
  const view = VIEWS[name] ? name : "overview";
  left.abort();
  left = new AbortController();
  const { signal } = left;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  content.replaceChildren();
  content.dataset.view = view;
  if (!keepFocus) content.focus({ preventScroll: true });
  try {
    await VIEWS[view].show(content, new URLSearchParams(query), signal);
  } catch (error) {
    if (!signal.aborted) notice(t("failed", { reason: error.message }), true);
  }
}

window.addEventListener("hashchange", () => { notice(""); show(); });
// What a listener awaited and nobody caught.
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name !== "AbortError") notice(t("failed", { reason: event.reason?.message ?? event.reason }), true);
});
const signOut = document.getElementById("sign-out");
signOut.addEventListener("click", forget);
document.addEventListener("token", () => { signOut.hidden = !token(); });
signOut.hidden = !token();

const language = document.getElementById("language");
language.value = preferred();
language.addEventListener("change", async () => {
  await use(language.value);
  await show({ keepFocus: true });
});
await use(language.value);
// Whoever comes by keyboard begins at the top.
await show({ keepFocus: true });
