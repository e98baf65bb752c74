// Requests to the server that this page comes from.

import { ask, token } from "./token.js";

/** An answer that is no success: its problem details. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Reads JSON; values that are empty stay out of the query. */
export async function get(path, query = {}, signal = undefined) {
  return (await request(withQuery(path, query), { signal })).json();
}

export async function getText(path, signal = undefined) {
  return (await request(path, { signal })).text();
}

/** Sends a change; an answer without a body is null. */
export async function post(path, body, signal = undefined) {
  const headers = { "content-type": "application/json" };
  const answer = await request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  return answer.status === 204 ? null : answer.json();
}

async function request(path, options) {
  for (;;) {
    const used = token();
    const headers = { ...options.headers, ...(used && { authorization: `Bearer ${used}` }) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
    if (answer.ok) return answer;
    if (answer.status !== 401) throw new Problem(answer.status, await detail(answer));
    // Another request may have asked meanwhile.
    if (token() === used) await ask(Boolean(used));
  }
}

async function detail(answer) {
  const problem = await answer.json().catch(() => ({}));
  return problem.detail ?? `${answer.status} ${answer.statusText}`;
}

function withQuery(path, query) {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return said.length ? `${path}?${new URLSearchParams(said)}` : path;
}
