// What the page says, in the reader's language. Every key is in every dictionary: a test holds them together.

const LANGUAGES = ["en", "ko"];
let messages = {};

export function preferred() {
  const kept = localStorage.getItem("language");
  const own = navigator.language.slice(0, 2);
  return [kept, own].find((language) => LANGUAGES.includes(language)) ?? "en";
}

export async function use(language) {
  const answer = await fetch(`page/${language}.json`);
  messages = await answer.json();
  localStorage.setItem("language", language);
  document.documentElement.lang = language;
  document.title = t("title");
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
}

/** The text of a key, with `{name}` replaced by the values. */
export function t(key, values = {}) {
  const text = messages[key];
  if (text === undefined) console.error(`no text for ${key}`);
  return (text ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
