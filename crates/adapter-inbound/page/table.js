// Tables, and pages of them that are read by key: the next page begins behind the last row, however many rows there are.

import { el } from "./dom.js";
import { number } from "./format.js";
import { t } from "./i18n.js";

/** A table. A column is `{ title, cell(row), kind }`, where the kind is a class of its cells. */
export function table(columns, rows) {
  if (!rows.length) return el("p", { class: "quiet" }, t("table.empty"));
  const cells = (row) => columns.map(({ cell, kind }) => el("td", { class: kind }, cell(row)));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("table.label") },
    el("table", {},
      el("thead", {}, el("tr", {}, columns.map(({ title }) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))));
}

/** Shows something else there. The button that was pressed goes with it: who came by keyboard goes on in what is new. */
export function change(place, ...children) {
  const within = place.contains(document.activeElement);
  place.replaceChildren(...children);
  if (!within) return;
  // A table before a button: the first one may act on everything.
  const next = place.querySelector("[tabindex]") ?? place.querySelector("button:enabled") ?? document.getElementById("content");
  next.focus();
}

/** Shows page after page of what `read(key)` answers: `{ items, next }`. */
export function pages(columns, read) {
  const place = el("div");
  let page = 1;
  const turn = async (key) => {
    let { items, next } = await read(key);
    // A page may end after very many rows that do not match: the look goes on until one does.
    while (!items.length && next) {
      change(place, el("p", { class: "quiet", role: "status", tabindex: "-1" }, t("page.looking")));
      ({ items, next } = await read(next));
    }
    const first = el("button", { type: "button", disabled: page === 1, onclick: () => { page = 1; return turn(); } }, t("page.first"));
    const onward = el("button", { type: "button", disabled: !next, onclick: () => { page += 1; return turn(next); } }, t("page.next"));
    change(place, table(columns, items), el("div", { class: "row" }, first, onward, el("span", {}, t("page.number", { n: number(page) }))));
  };
  return { place, turn };
}
