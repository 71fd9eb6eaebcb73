// Calls of the HTTP API. The token is kept for this tab only, and is sent in a header: never in a
// URL, and never by the browser on its own, so that no other site can act with it.

const KEY = "sulina.token";
const API = "/api/v1";
const listeners = new Set();

export const session = {
  get token() {
    return sessionStorage.getItem(KEY) ?? "";
  },
  set token(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

/** Call `listener` when the broker does not accept the token (any more). */
export function onSignedOut(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What the broker answered instead: cause and remedy are in `message`. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the broker answered ${status}`);
    this.status = status;
    this.title = body.title ?? "";
    this.kind = (body.type ?? "").replace("/docs#", "");
    this.retriable = Boolean(body.retriable);
  }
}

export const authorization = () => (session.token ? { Authorization: `Bearer ${session.token}` } : {});

/** The path of a topic: its parts are encoded, its slash is not. */
export const topicPath = (topic) => topic.slice(1).split("/").map(encodeURIComponent).join("/");

export function urlOf(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return API + path + (text ? `?${text}` : "");
}

/** Call the API; throws a Problem. `signal` ends it early. */
export async function call(verb, path, { query, body, raw, headers, signal } = {}) {
  const options = { method: verb, headers: { ...authorization(), ...headers }, signal };
  if (raw !== undefined) options.body = raw;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(urlOf(path, query), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      title: "The broker can't be reached",
      detail: "the broker does not answer: check that it runs, and your network; this page tries again",
      type: "/docs#unreachable",
      retriable: true,
    });
  }
  return read(answer);
}

export async function read(answer) {
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = { detail: text.slice(0, 500) };
  }
  if (answer.ok) return value;
  if (answer.status === 401) for (const listener of listeners) listener();
  throw new Problem(answer.status, value ?? {});
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body = {}) => call("POST", path, { body });
export const patch = (path, body) => call("PATCH", path, { body });
export const put = (path, body) => call("PUT", path, { body });
export const remove = (path, query) => call("DELETE", path, { query });

/** About the broker and how to sign in; needs no token. */
export async function about() {
  return read(await fetch("/", { headers: { Accept: "application/json" } }));
}

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
const plain = /^[\w@%+=:,./-]+$/;
export const shellWord = (text) => (plain.test(text) ? text : quoted(text));

/** The same call for a terminal. The token is not in it: it comes from the environment. */
export function curl({ verb = "GET", path, query, body, raw, headers = {} }) {
  const parts = ["curl"];
  const sent = body !== undefined || raw !== undefined;
  if (verb !== "GET" && !(verb === "POST" && sent)) parts.push(`-X ${verb}`);
  if (session.token) parts.push('-H "Authorization: Bearer $SULINA_TOKEN"');
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  parts.push(shellWord(location.origin + urlOf(path, query)));
  if (body !== undefined) parts.push(`-d ${quoted(JSON.stringify(body))}`);
  if (raw !== undefined) parts.push(`--data-raw ${quoted(raw)}`);
  return parts.join(" ");
}
