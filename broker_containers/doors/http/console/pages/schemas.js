// Subjects of the schema registry, their versions with differences; check before registering.

import { get, post, put, remove, shellWord } from "../api.js";
import { count, words } from "../format.js";
import { html, useState } from "../html.js";
import { Act, Card, CopyAs, Empty, Field, Loaded, Note, Page, Pill, Table, Time, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link } from "../router.js";

const TYPES = ["json_schema", "avro", "protobuf", "string", "number", "bytes"];
const MODES = ["none", "backward", "forward", "full", "backward_transitive", "forward_transitive", "full_transitive"];

function lines(definition) {
  try {
    return JSON.stringify(JSON.parse(definition), null, 2).split("\n");
  } catch {
    return definition.split("\n");
  }
}

/** The longest common subsequence of lines, for definitions of a few hundred lines. */
function difference(before, after) {
  const table = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      table[i][j] = before[i] === after[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      found.push([" ", after[j]]);
      i += 1;
      j += 1;
    } else if (j < after.length && (i === before.length || table[i][j + 1] >= table[i + 1][j])) {
      found.push(["+", after[j]]);
      j += 1;
    } else {
      found.push(["-", before[i]]);
      i += 1;
    }
  }
  return found;
}

function Definition({ subject, version, against }) {
  const load = async (signal) => {
    const path = `/schemas/${encodeURIComponent(subject)}`;
    const one = await get(path, { version }, signal);
    return [one, against ? await get(path, { version: against }, signal) : null];
  };
  const found = useLoaded(load, [subject, version, against]);
  return html`<${Loaded} from=${found}>${([one, other]) => {
    if (one.definition == null) return html`<p class="muted">The definition is not text.</p>`;
    const now = lines(one.definition);
    const before = other && other.definition != null ? lines(other.definition) : null;
    if (!before || now.length * before.length > 4e6) return html`<pre tabindex="0">${now.join("\n")}</pre>`;
    return html`<pre class="diff" tabindex="0" aria-label=${`Differences from version ${against}`}>${difference(before, now).map(([sign, line], index) => html`
      <div key=${index} class=${sign === "+" ? "added" : sign === "-" ? "removed" : ""}>${sign} ${line}</div>`)}</pre>`;
  }}<//>`;
}

export function Versions({ subject }) {
  const path = `/schemas/${encodeURIComponent(subject)}/versions`;
  const found = useLoaded((signal) => get(path, {}, signal), [subject]);
  const [chosen, setChosen] = useState(null);
  const [other, setOther] = useState("");
  return html`<${Card} title="Versions" actions=${html`<${CopyAs} cli=${`sulina schema versions ${subject}`} path=${path} />`}>
    <${Loaded} from=${found}>${(rows) => {
      const numbers = rows.map((row) => row.version);
      const version = chosen ?? numbers.at(-1);
      const against = other ? Number(other) : numbers[numbers.indexOf(version) - 1];
      return html`<${Table} label="Versions" rows=${rows.toReversed()} rowKey=${(row) => row.version} columns=${[
        { label: "Version", cell: (row) => html`<button type="button" class="plain small" aria-pressed=${row.version === version} onClick=${() => setChosen(row.version)}>${row.version}</button>` },
        { label: "Registered", cell: (row) => html`<${Time} us=${row.created_us} />` },
        { label: "By", cell: (row) => row.created_by || "–" },
        { label: "Description", cell: (row) => row.description },
      ]} />
      ${numbers.length > 1 && html`<div class="filters"><${Field} label="Compare with"><select value=${other} onChange=${(event) => setOther(event.target.value)}>
        <option value="">the version before</option>${numbers.map((each) => html`<option value=${each}>version ${each}</option>`)}</select><//></div>`}
      <h3>Version ${version}${against ? `, compared with version ${against}` : ""}</h3>
      <${Definition} subject=${subject} version=${version} against=${against} />`;
    }}<//>
  <//>`;
}

function Register({ subject, type = TYPES[0], done }) {
  const place = (values) => `/schemas/${encodeURIComponent(subject ?? values.subject)}`;
  const body = ({ type, definition }) => ({ type, definition });
  const command = ({ subject: name, type, definition }) => {
    const words = `schema register ${shellWord(subject ?? name)} - --type ${type}`;
    return `printf %s ${shellWord(definition)} | sulina ${words}`;
  };
  const [checked, setChecked] = useState(null);
  const check = async (values) => {
    try {
      setChecked(await post(`${place(values)}/check`, body(values)));
    } catch (problem) {
      setChecked({ compatible: false, reasons: [problem.message] });
    }
  };
  return html`<${Act} label=${subject ? "Register a version" : "Register a schema"} kind=${subject ? "" : "primary"} initial=${{ subject: "", type, definition: "" }}
    act=${(values) => post(`${place(values)}/versions`, body(values))} done=${done}
    copy=${(values) => ({ cli: command(values), verb: "POST", path: `${place(values)}/versions`, body: body(values) })}
    fields=${(values, set) => html`
      ${!subject && html`<${Field} label="Subject"><input required value=${values.subject} onInput=${(event) => set({ subject: event.target.value })} /><//>`}
      <${Field} label="Type"><select value=${values.type} onChange=${(event) => set({ type: event.target.value })}>${TYPES.map((each) => html`<option>${each}</option>`)}</select><//>
      <${Field} label="Definition"><textarea value=${values.definition} spellcheck=${false} onInput=${(event) => { set({ definition: event.target.value }); setChecked(null); }}></textarea><//>
      <div><button type="button" onClick=${() => check(values)}>Check without registering</button></div>
      ${checked && html`<div class=${`note ${checked.compatible === false ? "bad" : "good"}`} role="status">
        ${checked.compatible === false
          ? html`<strong>It can't be registered:</strong><ul>${(checked.reasons).map((each) => html`<li>${each}</li>`)}</ul>`
          : "It can be registered."}</div>`}`} />`;
}

function Subject({ subject }) {
  const found = useLoaded((signal) => get(`/schemas/${encodeURIComponent(subject)}`, {}, signal), [subject]);
  const path = `/schemas/${encodeURIComponent(subject)}`;
  const manage = may("schemas", subject);
  return html`<${Page} title=${subject} back=${[link(["schemas"]), "Schemas"]} actions=${html`
      <${CopyAs} cli=${`sulina schema get ${subject}`} path=${path} />
      ${manage && found.value && html`<${Register} subject=${subject} type=${found.value.type} done=${() => location.reload()} />
      <${Act} label="Compatibility" title="Which versions may be registered" initial=${{ compatibility: found.value.compatibility ?? "backward" }}
        act=${(values) => put(`${path}/compatibility`, values)} done=${found.reload} copy=${(values) => ({ cli: `sulina schema compatibility ${shellWord(subject)} ${values.compatibility}`, verb: "PUT", path: `${path}/compatibility`, body: values })}
        fields=${(values, set) => html`<${Field} label="Compatibility"><select value=${values.compatibility} onChange=${(event) => set({ compatibility: event.target.value })}>${MODES.map((each) => html`<option value=${each}>${words(each)}</option>`)}</select><//>`} />
      <${Act} label="Delete" title="Delete the subject" kind="danger" typed=${subject} explain="All its versions are deleted. Messages stay, but can't be decoded by it any more."
        act=${() => remove(path)} done=${() => { location.hash = link(["schemas"]); }} copy=${() => ({ cli: `sulina schema delete ${shellWord(subject)}`, verb: "DELETE", path })} />`}`}>
    <${Loaded} from=${found}>${(value) => html`<${Note}>${words(value.type)}, id ${value.id}${value.compatibility ? `, compatibility ${words(value.compatibility)}` : ""}<//>
      <${Versions} subject=${subject} />`}<//>
  <//>`;
}

export function Schemas({ path }) {
  if (path.length) return html`<${Subject} subject=${path[0]} />`;
  return html`<${All} />`;
}

function All() {
  const found = useLoaded((signal) => get("/schemas", {}, signal), []);
  return html`<${Page} title="Schemas" about="Subjects of the schema registry: what messages of a topic look like."
      actions=${html`<${CopyAs} cli="sulina schema list" path="/schemas" />${may("schemas") && html`<${Register} done=${found.reload} />`}`}>
    <section class="card"><${Loaded} from=${found}>${(rows) => html`<${Table} label="Subjects" rows=${rows} rowKey=${(row) => row.subject}
      empty=${html`<${Empty} title="No schema is registered">Register one with the button above, then bind a topic to it.<//>`}
      columns=${[
        { label: "Subject", cell: (row) => html`<a href=${link(["schemas", row.subject])}>${row.subject}</a>` },
        { label: "Type", cell: (row) => words(row.type) },
        { label: "Latest version", number: true, cell: (row) => count(row.latest) },
        { label: "Compatibility", cell: (row) => html`<${Pill}>${words(row.compatibility)}<//>` },
      ]} />`}<//></section>
  <//>`;
}
