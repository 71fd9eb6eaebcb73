// Settings: value, default, where it comes from; history with who and when, and undo.

import { call, get, put, shellWord } from "../api.js";
import { bytes, duration } from "../format.js";
import { html } from "../html.js";
import { SearchField } from "../paging.js";
import { Act, Card, CopyAs, Empty, Field, Loaded, Page, Pill, Table, Tabs, Time, useLoaded } from "../parts.js";
import { whoami } from "../rights.js";
import { link, setQuery } from "../router.js";

const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));

/** A value in units that people read: days instead of millions of seconds. */
function readable(row, value) {
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (typeof value !== "number" || value === 0) return shown(value);
  if (row.unit === "bytes") return bytes(value);
  if (row.unit === "seconds") return duration(value);
  if (row.name.endsWith("_ms")) return duration(value / 1000);
  return value.toLocaleString("en");
}

const SOURCES = { start: "how brokers were started", cluster: "changed", broker: "changed for this broker" };

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function Change({ row, done }) {
  const path = `/config/${encodeURIComponent(row.name)}`;
  const body = (values) => ({ value: parse(values.text), broker: values.broker, by: whoami().principal });
  return html`<div class="actions"><${Act} label="Change" small title=${`Change ${row.name}`} initial=${{ text: shown(row.value), broker: "" }}
      explain=${html`${row.help}<br /><span class="muted">Allowed: ${row.allowed}. ${row.effect}</span>`}
      act=${(values) => put(path, body(values))} done=${done}
      copy=${(values) => ({ cli: `sulina config set ${row.name} ${shellWord(values.text)}${values.broker ? ` --broker ${shellWord(values.broker)}` : ""}`, verb: "PUT", path, body: body(values) })}
      fields=${(values, set) => html`<${Field} label=${`Value${row.unit ? `, ${row.unit}` : ""}`}><input required value=${values.text} onInput=${(event) => set({ text: event.target.value })} /><//>
        ${row.per_broker && html`<${Field} label="Only for this broker" hint="Empty: for all"><input value=${values.broker} onInput=${(event) => set({ broker: event.target.value })} /><//>`}`} />
    ${row.source === "cluster" && html`<${Act} label="Reset" small title=${`Reset ${row.name}`} explain=${`It becomes ${shown(row.started_with)} again.`}
      act=${() => call("DELETE", path, { query: { by: whoami().principal } })} done=${done} copy=${() => ({ cli: `sulina config unset ${row.name}`, verb: "DELETE", path })} />`}</div>`;
}

function All({ query }) {
  const found = useLoaded((signal) => get("/config", {}, signal), []);
  const text = (query.text ?? "").toLowerCase();
  const wanted = (row) => `${row.name} ${row.help}`.toLowerCase().includes(text) && (!query.changed || row.source !== "default");
  return html`<${Card} title="Settings in force" actions=${html`<${CopyAs} cli="sulina config list" path="/config" />`}>
    <div class="filters" role="search"><${SearchField} label="Search" text=${query.text} placeholder="a part of the name, or of what it does" />
      <label class="check"><input type="checkbox" checked=${query.changed === "true"}
        onChange=${(event) => setQuery({ changed: event.target.checked || undefined })} /> only those that are not the default</label></div>
    <${Loaded} from=${found}>${(value) => html`<${Table} label="Settings" rowKey=${(row) => row.name}
      rows=${value.settings.filter(wanted)}
      empty=${html`<${Empty} title="No setting matches">${query.changed ? "All others have their defaults." : "Try a part of its name, such as retention."}<//>`}
      columns=${[
        { label: "Setting", cell: (row) => html`<strong>${row.name}</strong><br /><small class="muted wrap">${row.help}</small>` },
        { label: "Value", cell: (row) => html`<span title=${row.text}>${readable(row, row.value)}</span>
          ${Object.entries(row.brokers).map(([broker, value]) => html`<br /><small class="muted">${broker}: ${readable(row, value)}</small>`)}` },
        { label: "Comes from", cell: (row) => html`<${Pill} kind=${row.source === "default" ? "" : "accent"}>${SOURCES[row.source] ?? row.source}<//>` },
        { label: "Default", cell: (row) => html`<span class="muted">${readable(row, row.default)}</span>` },
        { label: "", cell: (row) => html`<${Change} row=${row} done=${found.reload} />` },
      ]} />`}<//>
  <//>`;
}

function History() {
  const found = useLoaded((signal) => get("/config/history", { limit: 100 }, signal), []);
  const undo = (row) => {
    const path = `/config/${encodeURIComponent(row.name)}`;
    const by = whoami().principal;
    return html`<${Act} label="Undo" small title=${`Undo the change of ${row.name}`} explain=${`It becomes ${row.old ?? (row.broker ? "what it is for all brokers" : "what the brokers were started with")} again.`} done=${found.reload}
      act=${() => (row.old === null ? call("DELETE", path, { query: { broker: row.broker, by } }) : put(path, { value: parse(row.old), broker: row.broker, by }))}
      copy=${() => (row.old === null ? { cli: `sulina config unset ${row.name}${row.broker ? ` --broker ${shellWord(row.broker)}` : ""}`, verb: "DELETE", path, query: { broker: row.broker } } : { cli: `sulina config set ${row.name} ${shellWord(row.old)}${row.broker ? ` --broker ${shellWord(row.broker)}` : ""}`, verb: "PUT", path, body: { value: parse(row.old), broker: row.broker, by } })} />`;
  };
  return html`<${Card} title="History" actions=${html`<${CopyAs} cli="sulina config history" path="/config/history" />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="History" rows=${rows} rowKey=${(row) => row.number}
      empty=${html`<${Empty} title="Nothing was changed">All settings have the values that the brokers started with.<//>`}
      columns=${[
        { label: "When", cell: (row) => html`<${Time} us=${row.at_us} />` },
        { label: "Setting", cell: (row) => html`${row.name}${row.broker && html` <${Pill}>${row.broker}<//>`}` },
        { label: "From", cell: (row) => row.old ?? "default" },
        { label: "To", cell: (row) => row.new ?? "default" },
        { label: "By", cell: (row) => row.by || "–" },
        { label: "", cell: undo },
      ]} />`}<//>
  <//>`;
}

export function Settings({ query }) {
  const tab = query.tab === "history" ? "history" : "values";
  return html`<${Page} title="Settings" about="What can be changed while brokers run.">
    <${Tabs} tabs=${[["values", "Values"], ["history", "History"]]} now=${tab} href=${(key) => link(["settings"], { tab: key })} />
    ${tab === "history" ? html`<${History} />` : html`<${All} query=${query} />`}
  <//>`;
}
