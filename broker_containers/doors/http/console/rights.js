// What the caller may do, for showing only what can be used. The broker decides in any case.

import { get } from "./api.js";

let own = { principal: "", grants: [], denied: [] };

export async function loadRights() {
  own = await get("/whoami");
  return own;
}

export const whoami = () => own;

function split(grant) {
  const [action, ...rest] = grant.split(":");
  return [action, rest.join(":")];
}

function covers(grant, action, scope) {
  const [what, where] = split(grant);
  if (what !== "admin" && what !== action) return false;
  const [topic] = where.split("#");
  if (topic === "*" || topic === scope || where === scope) return true;
  return topic.endsWith("/*") && scope.startsWith(topic.slice(0, -1));
}

/** Whether the caller may do `action` on a scope: "*", "/namespace/*" or "/namespace/topic". */
export function may(action, scope = "*") {
  const grants = own.grants ?? [];
  const denied = (own.denied ?? []).map((each) => each.replace(/^deny:/, ""));
  if (denied.some((rule) => covers(rule, action, scope))) return false;
  return grants.some((grant) => covers(grant, action, scope));
}
