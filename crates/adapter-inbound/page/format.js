// Numbers, ages and times as the reader writes them.

import { t } from "./i18n.js";

const language = () => document.documentElement.lang;

export const number = (value) => value.toLocaleString(language());

/** A count that stops at a limit. */
export const count = (value, limit) => (value >= limit ? t("count.atLeast", { count: number(value) }) : number(value));

export const time = (text) => (text ? new Date(text).toLocaleString(language(), { dateStyle: "short", timeStyle: "medium" }) : t("none"));

/** Seconds in the largest unit that fits. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return t("none");
  if (seconds < 1) return t("age.milliseconds", { n: number(Math.round(seconds * 1000)) });
  if (seconds < 120) return t("age.seconds", { n: number(Math.round(seconds)) });
  if (seconds < 7200) return t("age.minutes", { n: number(Math.round(seconds / 60)) });
  if (seconds < 172800) return t("age.hours", { n: number(Math.round(seconds / 3600)) });
  return t("age.days", { n: number(Math.round(seconds / 86400)) });
}
