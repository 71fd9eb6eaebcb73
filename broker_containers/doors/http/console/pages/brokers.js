// Brokers: load by part, topics; drain and activate with progress.

import { get, post, shellWord } from "../api.js";
import { byteRate, bytes, compact, count, millis, percent, rate, words } from "../format.js";
import { html, useRef } from "../html.js";
import { useLive } from "../live.js";
import { Act, Card, CopyAs, Empty, Facts, Field, Loaded, Meter, Note, Page, Pill, Table, Time, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link, topicLink } from "../router.js";

const UNITS = {
  cpu: (value) => `${compact(value)} cores`, memory: bytes, disk_space: bytes, disk_io: byteRate, network_in: byteRate, network_out: byteRate,
};

/** A share of what there is; without a limit the amount, and nothing for what is not measured. */
function used(name, each) {
  if (each.limit) return percent(each.used / each.limit);
  return name === "disk_space" && !each.used ? "–" : UNITS[name](each.used);
}

const SHOWN = 200;
const MODES = { active: "good", draining: "warn", drained: "" };

function Mode({ row, done, alone }) {
  if (!may("brokers") || alone) return null;
  const draining = row.mode !== "active";
  const verb = draining ? "activate" : "drain";
  const path = `/brokers/${encodeURIComponent(row.broker)}/${verb}`;
  return html`<${Act} label=${draining ? "Activate" : "Drain"} small title=${draining ? `Activate ${row.broker}` : `Drain ${row.broker}`} initial=${{ reason: "" }}
    explain=${draining ? "It takes topics again." : "All its topics move to other brokers, and it gets no new ones. Clients follow; this page shows the progress."}
    act=${(values) => post(path, values)} done=${done}
    copy=${(values) => ({ cli: `${draining ? "sulina broker activate" : "sulina broker drain"} ${row.broker}${values.reason && !draining ? ` --reason ${shellWord(values.reason)}` : ""}`, verb: "POST", path, body: values })}
    fields=${(values, set) => html`<${Field} label="Reason" hint="Stored with the change"><input value=${values.reason} onInput=${(event) => set({ reason: event.target.value })} /><//>`} />`;
}

/** How far brokers are with being emptied, of the most topics that were seen on each. */
export function Draining({ rows }) {
  const most = useRef({}).current;
  for (const row of rows) most[row.broker] = Math.max(most[row.broker] ?? 1, row.topics);
  return rows.filter((row) => row.mode !== "active").map((row) => html`<${Note} key=${row.broker} kind=${row.topics ? "warn" : "good"}>
    <strong>${row.broker} is ${row.topics ? "being drained" : "drained"}:</strong>
    ${row.topics ? ` ${count(row.topics)} topics are left.` : " it has no topics any more, and can be stopped."}
    <${Meter} share=${1 - row.topics / most[row.broker]} label=${`${count(row.topics)} topics left`} kind=${row.topics ? "warn" : ""} /><//>`);
}

function All() {
  const found = useLoaded((signal) => get("/brokers", {}, signal), [], 3000);
  const { overview } = useLive();
  const sample = (row) => overview?.brokers.find((each) => each.broker === row.broker);
  return html`<${Page} title="Brokers" actions=${html`<${CopyAs} cli="sulina broker list" path="/brokers" />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Draining} rows=${rows} />
      <section class="card"><${Table} label="Brokers" rows=${rows} rowKey=${(row) => row.broker} columns=${[
        { label: "Broker", cell: (row) => html`<a href=${link(["brokers", row.broker])}>${row.broker}</a>${row.leader && html` <${Pill} kind="accent">leader<//>`}` },
        { label: "Mode", cell: (row) => html`<${Pill} kind=${MODES[row.mode] ?? ""}>${words(row.mode)}<//>` },
        { label: "Topics", number: true, cell: (row) => count(row.topics) },
        { label: "In", number: true, cell: (row) => rate(sample(row)?.now.records_in) },
        { label: "Out", number: true, cell: (row) => rate(sample(row)?.now.records_out) },
        { label: "Backlog", number: true, cell: (row) => compact(sample(row)?.now.backlog) },
        { label: "p99", number: true, cell: (row) => millis(sample(row)?.now.p99_ms) },
        { label: "Version", cell: (row) => row.version },
        { label: "Started", cell: (row) => html`<${Time} us=${row.started_us} relative />` },
        rows.length > 1 && { label: "", cell: (row) => html`<${Mode} row=${row} done=${found.reload} />` },
      ].filter(Boolean)} /></section>`}<//>
  <//>`;
}

function One({ broker }) {
  const found = useLoaded((signal) => get(`/brokers/${encodeURIComponent(broker)}`, {}, signal), [broker], 5000);
  const { overview } = useLive();
  const sample = overview?.brokers.find((each) => each.broker === broker);
  return html`<${Page} title=${broker} back=${[link(["brokers"]), "Brokers"]} actions=${html`
      <${CopyAs} cli=${`sulina broker describe ${broker}`} path=${`/brokers/${encodeURIComponent(broker)}`} />
      ${found.value && html`<${Mode} row=${found.value} done=${found.reload} alone=${overview?.brokers.length === 1} />`}`}>
    <${Loaded} from=${found}>${(row) => html`
      <section class="card"><${Facts} line rows=${[
        ["Mode", html`<${Pill} kind=${MODES[row.mode] ?? ""}>${words(row.mode)}<//>`],
        ["Leader", row.leader ? "yes" : "no"],
        ["Version", row.version],
        ["Started", html`<${Time} us=${row.started_us} />`],
        ["Clients", html`<code>${row.url}</code>`],
        row.http && ["HTTP", html`<code>${row.http}</code>`],
        row.grpc && ["Danube's clients", html`<code>${row.grpc}</code>`],
        row.labels.length > 0 && ["Labels", row.labels.join(", ")],
      ]} /></section>
      ${sample && html`<div class="columns">
        <${Card} title="Health"><${Table} label="Health" rows=${Object.entries(sample.parts)} columns=${[
          { label: "Part", cell: ([name]) => name },
          { label: "State", cell: ([, part]) => html`<${Pill} kind=${part.ok ? "good" : "bad"}>${part.ok ? "serves" : "fails"}<//>` },
          { label: "Detail", cell: ([, part]) => part.detail }]} /><//>
        <${Card} title="Now"><${Facts} rows=${[
          ["In", `${rate(sample.now.records_in)}, ${byteRate(sample.now.bytes_in)}`],
          ["Out", `${rate(sample.now.records_out)}, ${byteRate(sample.now.bytes_out)}`],
          ["Publish latency", `p50 ${millis(sample.now.p50_ms)}, p99 ${millis(sample.now.p99_ms)}`],
          ["Open topics", count(sample.topics)], ["Producers", count(sample.producers)], ["Consumers", count(sample.consumers)],
          ["Tail cache", bytes(sample.cache_bytes)],
          sample.disk_bytes && ["Disk free", `${bytes(sample.disk_free_bytes)} of ${bytes(sample.disk_bytes)}`],
        ]} /><//></div>`}
      ${row.load && html`<${Card} title="Load as reported to the leader"><${Table} label="Load" rows=${Object.entries(row.load.resources)} columns=${[
        { label: "Resource", cell: ([name]) => words(name) },
        { label: "Used", number: true, cell: ([name, each]) => html`<span title=${each.limit ? `${UNITS[name](each.used)} of ${UNITS[name](each.limit)}` : undefined}>${used(name, each)}</span>` },
        { label: "Share", cell: ([name, each]) => each.limit > 0 && html`<${Meter} share=${each.used / each.limit} label=${percent(each.used / each.limit)} kind=${each.used / each.limit > 0.85 ? "warn" : ""} />` },
      ]} /><//>`}
      <${Card} title=${`Topics (${count(row.owns.length)}${row.owns.length >= 1000 ? " or more" : ""})`}>
        <${Table} label="Topics of this broker" rows=${row.owns.slice(0, SHOWN)} rowKey=${(each) => each}
          empty=${html`<${Empty} title="It has no open topics">Topics are opened when they are used.<//>`}
          columns=${[{ label: "Topic", cell: (each) => html`<a href=${topicLink(each)}>${each}</a>` }]} />
        ${row.owns.length > SHOWN && html`<p class="muted">The first ${count(SHOWN)} are shown.</p>`}<//>`}<//>
  <//>`;
}

export function Brokers({ path }) {
  return path.length ? html`<${One} broker=${path[0]} />` : html`<${All} />`;
}
