// Which relays there are and what they hold, who leads, and what is held back.

import { get, post } from "../api.js";
import { confirm } from "../confirm.js";
import { el, every, notice } from "../dom.js";
import { age, number } from "../format.js";
import { t } from "../i18n.js";
import { change as redraw, table } from "../table.js";

const SECONDS = 5;

export async function show(content, _, signal) {
  const [pauses, relays, breakers, leaders] = [el("div"), el("div"), el("div"), el("div")];
  const draw = async (wasChanged = false) => {
    const status = await get("outbox/status", {}, signal);
    // A button that has the focus is not taken away from under the fingers.
    if (wasChanged || !pauses.contains(document.activeElement)) redraw(pauses, table(pauseColumns(draw), status.paused));
    redraw(relays, table(relayColumns(), status.relays));
    const paused = status.relays.flatMap((relay) => relay.paused.map((of) => ({ ...of, holder: relay.holder })));
    redraw(breakers, table(breakerColumns(), paused));
    redraw(leaders, table(leaderColumns(), status.leaders));
  };
  content.append(el("h2", {}, t("nav.relays")),
    el("h3", {}, t("relays.list")), relays,
    el("h3", {}, t("relays.breakers")), breakers,
    el("h3", {}, t("relays.leaders")), leaders,
    el("h3", {}, t("relays.pauses")), pauses, pauseForm(draw));
  every(SECONDS, signal, () => draw().catch((error) => {
    if (!signal.aborted) notice(t("failed", { reason: error.message }), true);
  }));
}

/** True when it was asked for, and not given up. */
async function change(verb, what, name) {
  const by = await confirm(t(`action.${verb}`), t(`confirm.${verb}`, { what: name }));
  if (!by) return false;
  const { changed } = await post(`outbox/${verb}`, { ...what, ...by });
  notice(t(changed ? "done.changed" : "done.unchanged"));
  return true;
}

function pauseForm(done) {
  const input = el("input", { name: "aggregateType", maxlength: "100", required: true });
  const submit = async (event) => {
    event.preventDefault();
    await change("pause", { aggregateType: input.value }, input.value);
    await done();
  };
  const everything = async () => {
    await change("pause", { everything: true }, t("pause.everything"));
    await done();
  };
  return el("form", { class: "row", onsubmit: submit },
    el("label", {}, t("filter.aggregateType"), input),
    el("button", { class: "danger" }, t("pause.type")),
    el("button", { type: "button", class: "danger", onclick: everything }, t("pause.all")));
}

function pauseColumns(done) {
  const name = (pause) => (pause.everything ? t("pause.everything") : pause.aggregateType);
  const resume = async (pause) => {
    const { everything, aggregateType } = pause;
    if (await change("resume", everything ? { everything } : { aggregateType }, name(pause))) await done(true);
  };
  return [
    { title: t("pause.what"), cell: name },
    { title: t("pause.since"), cell: (pause) => age(pause.ageSeconds) },
    { title: t("audit.operator"), cell: (pause) => pause.operator },
    { title: t("audit.reason"), cell: (pause) => pause.reason ?? "", kind: "long" },
    { title: t("dead.actions"), cell: (pause) => el("button", { type: "button", onclick: () => resume(pause) }, t("action.resume")) },
  ];
}

function relayColumns() {
  return [
    { title: t("event.holder"), cell: (relay) => relay.holder },
    { title: t("relays.state"), cell: (relay) => t(`relays.${relay.state}`) },
    { title: t("relays.seen"), cell: (relay) => (relay.silentSeconds === null ? "" : age(relay.silentSeconds)) },
    { title: t("relays.claims"), cell: (relay) => number(relay.claims) },
    { title: t("relays.lanes"), cell: (relay) => number(relay.lanes) },
    { title: t("relays.expired"), cell: (relay) => number(relay.expired) },
    { title: t("relays.oldest"), cell: (relay) => (relay.oldestClaimAgeSeconds === null ? "" : age(relay.oldestClaimAgeSeconds)) },
  ];
}

function breakerColumns() {
  return [
    { title: t("relays.destination"), cell: (paused) => paused.destination ?? t("pause.everything") },
    { title: t("event.holder"), cell: (paused) => paused.holder },
    { title: t("pause.since"), cell: (paused) => age(paused.ageSeconds) },
    { title: t("audit.reason"), cell: (paused) => paused.reason, kind: "long" },
  ];
}

function leaderColumns() {
  return [
    { title: t("relays.role"), cell: (leader) => leader.role },
    { title: t("event.holder"), cell: (leader) => leader.holder },
    { title: t("relays.term"), cell: (leader) => number(leader.term) },
    { title: t("relays.left"), cell: (leader) => (leader.expiresInSeconds === null ? t("relays.over") : age(leader.expiresInSeconds)) },
  ];
}
