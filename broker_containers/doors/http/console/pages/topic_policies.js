// The limits in force for a topic, where each comes from, and changing them.

import { get, patch, topicPath } from "../api.js";
import { bytes, count, duration, words } from "../format.js";
import { html } from "../html.js";
import { Act, Card, CopyAs, Field, Loaded, Pill, Table, useLoaded } from "../parts.js";
import { may } from "../rights.js";

/** A value of a policy with its unit, which its name says. */
export function policyValue(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === 0) return name === "max_message_size" || /^max_|_ms$|_bytes$/.test(name) ? "no limit" : "0";
  if (name.endsWith("_ms")) return duration(value / 1000);
  if (/bytes|size/.test(name)) return bytes(value);
  return typeof value === "number" ? count(value) : String(value);
}

function Change({ path, topic, name, value, done }) {
  const parse = (text) => (text === "" ? null : typeof value === "boolean" ? text === "true" : Number(text));
  return html`<${Act} label="Change" small title=${`Change ${words(name)}`} initial=${{ text: String(value) }}
    explain="0 is no limit. Empty leaves it to the namespace."
    act=${(values) => patch(path, { [name]: parse(values.text) })} done=${done}
    copy=${(values) => ({ verb: "PATCH", path, body: { [name]: parse(values.text) } })}
    fields=${(values, set) => html`<${Field} label=${`${words(name)}${name.endsWith("_ms") ? ", milliseconds" : /bytes|size/.test(name) ? ", bytes" : ""}`}>
      ${typeof value === "boolean"
        ? html`<select value=${values.text} onChange=${(event) => set({ text: event.target.value })}><option value="">the namespace's</option><option>true</option><option>false</option></select>`
        : html`<input type="number" min="0" value=${values.text} onInput=${(event) => set({ text: event.target.value })} />`}<//>`} />`;
}

export function Policies({ topic }) {
  const path = `/topics/${topicPath(topic)}/policy`;
  const found = useLoaded(async (signal) => {
    const [policy, sources] = await Promise.all([get(path, {}, signal), get(`${path}/sources`, {}, signal)]);
    return Object.entries(policy).map(([name, value]) => ({ name, value, source: sources[name] }));
  }, [topic]);
  return html`<${Card} title="Policies" actions=${html`<${CopyAs} cli=${`sulina topic policy ${topic}`} path=${path} />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="Policies" rows=${rows} rowKey=${(row) => row.name} columns=${[
      { label: "Limit", cell: (row) => words(row.name) },
      { label: "Value", cell: (row) => html`<span title=${String(row.value)}>${policyValue(row.name, row.value)}</span>` },
      { label: "Comes from", cell: (row) => html`<${Pill} kind=${row.source === "topic" ? "accent" : ""}>${row.source === "topic" ? "this topic" : row.source === "namespace" ? "the namespace" : "the default"}<//>` },
      may("topics", topic) && { label: "", cell: (row) => html`<${Change} path=${path} topic=${topic} name=${row.name} value=${row.value} done=${found.reload} />` },
    ].filter(Boolean)} />`}<//>
  <//>`;
}
