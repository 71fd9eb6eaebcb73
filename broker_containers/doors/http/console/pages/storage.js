// Storage: nodes, disks, ledgers under-replicated or in doubt, recovery under way.

import { get, put } from "../api.js";
import { bytes, count, percent, words } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Act, Card, CopyAs, Empty, Facts, Field, Loaded, Meter, Note, Page, Pill, Table, Trouble, useLoaded } from "../parts.js";

const LEVELS = ["debug", "info", "warning", "error"];

export const diskKind = (used) => (used > 0.9 ? "bad" : used > 0.8 ? "warn" : "");

function Disk({ total, free }) {
  if (!total) return "–";
  const used = 1 - free / total;
  return html`<div class="stack tight"><span class="nowrap">${bytes(free)} free of ${bytes(total)}</span>
    <${Meter} share=${used} label=${`${percent(used)} used`} kind=${diskKind(used)} /></div>`;
}

/** Without what the transport adds to it; all of it is in the tooltip. */
const cause = (text) => text.split(/; last error|, failed to connect/)[0];

function State({ row }) {
  if (!row.healthy) {
    return html`<${Pill} kind="bad">does not serve<//><br /><small class="muted" title=${row.trouble}>${cause(row.trouble)}</small>`;
  }
  if (row.state && !row.state.writable) return html`<${Pill} kind="bad">read-only: ${row.trouble}<//>`;
  if (row.state?.damaged_places) return html`<${Pill} kind="warn">${count(row.state.damaged_places)} damaged places in its journal<//>`;
  return html`<${Pill} kind="good">healthy<//>`;
}

function Level({ row, done }) {
  const path = `/storage/nodes/${encodeURIComponent(row.node)}/log-level`;
  return html`<${Act} small label=${row.state.log_level} title=${`Log level of ${row.node}`} initial=${{ level: row.state.log_level }}
    explain="It holds until the node restarts. Brokers have the setting log.level."
    act=${(values) => put(path, values)} done=${done}
    copy=${(values) => ({ cli: `sulina cluster log-level ${row.node} ${values.level || "default"}`, verb: "PUT", path, body: values })}
    fields=${(values, set) => html`<${Field} label="Least severe messages to log">
      <select value=${values.level} onChange=${(event) => set({ level: event.target.value })}>
        <option value="">as it was started</option>${LEVELS.map((each) => html`<option>${each}</option>`)}</select><//>`} />`;
}

function Nodes({ nodes, reload }) {
  const known = (value) => (row) => (row.state ? value(row.state, row) : "–");
  return html`<${Card} title="Storage nodes"><${Table} label="Storage nodes" rows=${nodes} rowKey=${(row) => row.node} columns=${[
    { label: "Node", cell: (row) => html`<span class="nowrap">${row.node}</span><br />
      <small class="nowrap muted">${[row.address, row.zone, row.state?.version].filter(Boolean).join(" · ")}</small>` },
    { label: "State", cell: (row) => html`<${State} row=${row} />` },
    { label: "Disk", cell: known((state) => html`<${Disk} total=${state.disk_bytes} free=${state.disk_free_bytes} />`) },
    { label: "Journal", number: true, cell: known((state) => html`<span title=${`${count(state.journal_files)} files`}>${bytes(state.journal_bytes)}</span>`) },
    { label: "Reserved", number: true, title: "Space that appends find even if the disk is full", cell: known((state) => bytes(state.reserved_bytes)) },
    { label: "Waiting for its disk", number: true, cell: known((state) => bytes(state.pending_bytes)) },
    { label: "Ledgers", number: true, cell: known((state) => count(state.ledgers)) },
    { label: "Logs", number: true, cell: known((state, row) => html`<${Level} row=${row} done=${reload} />`) },
  ]} /><//>`;
}

/** The first ledgers come with the page; the others are looked at when somebody asks for it. */
function Doubts({ first }) {
  const [more, setMore] = useState({ checked: 0, away: 0, found: [], next: first.next_ledger, busy: false, problem: null });
  useEffect(() => {
    if (!more.busy) return undefined;
    let ended = false;
    get("/storage/ledgers", { after: more.next }).then(
      (page) => ended || setMore((last) => ({
        checked: last.checked + page.ledgers_checked,
        away: last.away + page.away,
        found: [...last.found, ...page.in_doubt].slice(0, 5000),
        next: page.next_ledger, busy: page.next_ledger !== null, problem: null,
      })),
      (problem) => ended || setMore((last) => ({ ...last, busy: false, problem })));
    return () => {
      ended = true;
    };
  }, [more.busy, more.next]);
  const rows = [...first.in_doubt, ...more.found];
  const recovering = rows.filter((row) => row.phase === "in_recovery").length;
  const checked = first.ledgers_checked + more.checked;
  const away = first.away + more.away;
  const next = more.checked ? more.next : first.next_ledger;
  const all = next === null ? "all there are" : "more are not looked at yet";
  return html`<${Card} title="Ledgers in doubt" actions=${html`<${CopyAs} cli="sulina cluster storage" path="/storage/ledgers" />`}>
    ${recovering > 0 && html`<${Note} kind="warn">${count(recovering)} ledgers are being recovered: their topics serve again when that is done, usually within seconds.<//>`}
    ${away > 0 && html`<${Note} kind="warn">${count(away)} of ${count(checked)} ledgers have copies on nodes that do not serve: they are read from the other copies, and have all of theirs when the nodes are back.<//>`}
    <${Table} label="Ledgers in doubt" rows=${rows} rowKey=${(row) => row.ledger}
      empty=${first.trouble
        ? html`<${Empty} title="Nothing is known of them now">The ${first.trouble.replace(/^the /, "")}.<//>`
        : html`<${Empty} title=${away ? "No others" : "All is well"}>None of ${count(checked)} ledgers is being recovered${away ? "" : ", and all have their copies"}.<//>`}
      columns=${[
        { label: "Ledger", number: true, cell: (row) => row.ledger },
        { label: "State", cell: (row) => html`<${Pill} kind="warn">${row.phase === "in_recovery" ? "being recovered" : "fewer copies than it should have"}<//>` },
        { label: "Phase", cell: (row) => words(row.phase) },
        { label: "Nodes", cell: (row) => row.nodes.join(", ") },
      ]} />
    ${more.problem && html`<${Trouble} problem=${more.problem} />`}
    <div class="pages"><span class="muted" role="status">${!first.trouble && `${count(checked)} ledgers looked at, ${all}`}</span>
      <span class="actions">${more.busy
        ? html`<button type="button" onClick=${() => setMore((last) => ({ ...last, busy: false }))}>Stop</button>`
        : next !== null && html`<button type="button" onClick=${() => setMore((last) => ({ ...last, next, busy: true }))}>Look at all</button>`}</span></div>
  <//>`;
}

export function Storage() {
  const found = useLoaded((signal) => get("/storage", {}, signal), [], 5000);
  return html`<${Page} title="Storage" about="Where messages are durable." actions=${html`<${CopyAs} cli="sulina cluster storage" path="/storage" />`}>
    <${Loaded} from=${found}>${(value) => html`
      <section class="card"><${Facts} line rows=${[
        ["Messages are stored", value.embedded ? "in the broker's own journal" : `on ${count(value.nodes.length)} storage nodes`],
        ["Copies", count(value.write_quorum)],
        ["Durable before an acknowledgement", count(value.ack_quorum)],
        !value.embedded && ["Object stores", [...new Set(value.nodes.map((each) => each.object_store).filter(Boolean))].join(", ") || "none"],
        value.disk_bytes && ["Disk", html`<${Disk} total=${value.disk_bytes} free=${value.disk_free_bytes} />`],
      ]} /></section>
      ${!value.embedded && html`<${Nodes} nodes=${value.nodes} reload=${found.reload} /><${Doubts} first=${value} />`}`}<//>
  <//>`;
}
