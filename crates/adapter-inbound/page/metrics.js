// The text format of Prometheus, as far as this page needs it.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a page: `{ name, labels, value }`. */
export function parse(text) {
  const lines = text.split("\n").map((line) => SAMPLE.exec(line)).filter(Boolean);
  return lines.map(([, name, labels, value]) => ({
    name,
    labels: Object.fromEntries([...(labels ?? "").matchAll(LABEL)].map(([, key, text]) => [key, text])),
    value: Number(value.replace("+Inf", "Infinity")),
  }));
}

/** The sum of a counter over all its labels. */
export function sum(samples, name) {
  return samples.filter((sample) => sample.name === name).reduce((total, { value }) => total + value, 0);
}

/** A counter by one of its labels. */
export function by(samples, name, label) {
  return Object.fromEntries(samples.filter((sample) => sample.name === name).map(({ labels, value }) => [labels[label], value]));
}

/** The cumulated buckets of a histogram: `[[bound, count], …]`. */
export function buckets(samples, name) {
  const found = samples.filter((sample) => sample.name === `${name}_bucket`);
  return found.map(({ labels, value }) => [Number(labels.le.replace("+Inf", "Infinity")), value]).sort(([a], [b]) => a - b);
}

/** The value below which a share of what came between two looks lies; null when nothing came. */
export function quantile(share, before, now) {
  const came = now.map(([bound, count], n) => [bound, count - (before[n]?.[1] ?? 0)]);
  const total = came.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of came) {
    if (count >= rank) return bound === Infinity ? lower : lower + (bound - lower) * ((rank - below) / (count - below || 1));
    [lower, below] = [bound, count];
  }
  return lower;
}
