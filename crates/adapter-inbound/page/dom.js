// Elements without markup: text is always text, so that nothing an event says is ever run.

/** Makes an element. `on…` are listeners, `class` and other names attributes; `false`, `null` and `undefined` leave one out. */
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Says something to everybody, those included who hear the page. */
export function notice(text, bad = false) {
  const place = document.getElementById("notice");
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

/** Calls `work` now and then every `seconds`, until the view is left. A hidden page waits. */
export async function every(seconds, signal, work) {
  while (!signal.aborted) {
    if (!document.hidden) await work();
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}
