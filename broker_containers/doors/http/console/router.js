// The address of a page is the part of the URL after #, which is not sent to the broker.

import { useEffect, useState } from "./html.js";

export function parse(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  return {
    path: path.split("/").filter(Boolean).map(decodeURIComponent),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Change the query of this page; with `replace` it leaves no entry in the history. */
export function setQuery(changes, replace = true) {
  const { path, query } = parse();
  const target = link(path, { ...query, ...changes });
  if (replace) {
    history.replaceState(null, "", target);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
}

export const topicLink = (topic, query) => link(["topics", ...topic.slice(1).split("/")], query);

export function useRoute() {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const changed = () => setRoute(parse());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}
