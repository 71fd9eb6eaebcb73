// Everything in one look: health, rates, backlog, latency, storage, and what changed last.

import { Chart, Sparkline } from "../chart.js";
import { byteRate, bytes, compact, count, duration, millis, percent, rate, words } from "../format.js";
import { get } from "../api.js";
import { html } from "../html.js";
import { useLive } from "../live.js";
import { Card, CopyAs, Empty, Loaded, Loading, Meter, Note, Page, Pill, Stat, Table, Time, Trouble, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link, topicLink } from "../router.js";
import { Concerns } from "./attention.js";
import { Outcome } from "./security.js";
import { diskKind } from "./storage.js";

const MINUTES = 15;
const SHOWN = 8;
const TRAIL = "/system/audit";

/** The disks of brokers that store messages themselves, and of storage nodes. */
function disksOf(brokers, storage) {
  const nodes = (storage?.nodes ?? []).filter((each) => each.state?.disk_bytes)
    .map((each) => ({ name: each.node, total: each.state.disk_bytes, free: each.state.disk_free_bytes }));
  const own = brokers.filter((each) => each.disk_bytes)
    .map((each) => ({ name: each.broker, total: each.disk_bytes, free: each.disk_free_bytes }));
  return nodes.length ? nodes : own;
}

function Tiles({ overview, history }) {
  const { total, brokers } = overview;
  const recent = history.slice(-60);
  const spark = (value, label) => html`<${Sparkline} values=${recent.map((each) => value(each) ?? 0)} label=${label} />`;
  const storage = useLoaded((signal) => get("/storage", {}, signal), [], 30000);
  const [fullest] = disksOf(brokers, storage.value).toSorted((a, b) => a.free / a.total - b.free / b.total);
  const used = fullest && 1 - fullest.free / fullest.total;
  const tiers = brokers.map((each) => each.tier).filter(Boolean);
  const lag = Math.max(0, ...tiers.map((each) => each.lag_seconds));
  return html`<div class="stats">
    <${Stat} label="Published" value=${rate(total.records_in)} detail=${byteRate(total.bytes_in)}>
      ${spark((each) => each.records_in, "Published, the last five minutes")}<//>
    <${Stat} label="Delivered" value=${rate(total.records_out)} detail=${byteRate(total.bytes_out)}>
      ${spark((each) => each.records_out, "Delivered, the last five minutes")}<//>
    <${Stat} label="Backlog" value=${compact(total.backlog)} detail="not acknowledged">
      ${spark((each) => each.backlog, "Backlog, the last five minutes")}<//>
    <${Stat} label="Publish latency, p99" value=${millis(total.p99_ms)} detail=${total.p50_ms === null ? "nothing was published" : `p50 ${millis(total.p50_ms)}`}>
      ${spark((each) => each.p99_ms, "99th percentile, the last five minutes")}<//>
    ${fullest && html`<${Stat} label="Disk" value=${percent(used)} detail=${`${bytes(fullest.free)} free on ${fullest.name}`} kind=${diskKind(used)}>
      <${Meter} share=${used} label=${`${percent(used)} used`} kind=${diskKind(used)} /><//>`}
    ${tiers.length > 0 && html`<${Stat} label="Tier lag" value=${duration(lag)}
      detail=${`${bytes(tiers.reduce((sum, each) => sum + each.untiered_bytes, 0))} waiting`} kind=${lag > 7200 ? "warn" : ""} />`}
  </div>`;
}

function Health({ overview }) {
  const rows = overview.brokers;
  const bad = (row) => Object.entries(row.parts).filter(([, part]) => !part.ok);
  const degraded = [...new Set(rows.flatMap((row) => Object.values(row.parts)).map((part) => part.warning).filter(Boolean))];
  return html`<${Card} title="Brokers" actions=${html`<a href=${link(["brokers"])}>All details</a>`}>
    ${degraded.map((text) => html`<${Note} key=${text} kind="warn"><strong>${text}.</strong>${" "}
      The others carry on: check that it runs, and its log. <a href=${link(["storage"])}>Storage</a><//>`)}
    ${overview.silent.map((name) => html`<${Note} key=${name} kind="bad">
      <strong>${name}</strong> did not answer in time: check that it runs, and its log.<//>`)}
    <${Table} label="Brokers" rows=${rows} rowKey=${(row) => row.broker} columns=${[
      { label: "Broker", cell: (row) => html`<a href=${link(["brokers", row.broker])}>${row.broker}</a>` },
      { label: "Health", cell: (row) => (bad(row).length
        ? html`<${Pill} kind="bad">${bad(row).map(([name, part]) => `${name}: ${part.detail}`).join("; ")}<//>`
        : Object.values(row.parts).some((part) => part.warning) ? html`<${Pill} kind="warn">serves, not all parts do<//>`
        : row.overloaded ? html`<${Pill} kind="warn">publishers wait for the disk<//>`
          : html`<${Pill} kind="good">serves<//>`) },
      { label: "In", number: true, cell: (row) => rate(row.now.records_in) },
      { label: "Out", number: true, cell: (row) => rate(row.now.records_out) },
      { label: "p99", number: true, cell: (row) => millis(row.now.p99_ms) },
      { label: "Topics", number: true, cell: (row) => count(row.topics) },
      { label: "Clients", number: true, cell: (row) => count(row.producers + row.consumers) },
    ]} />
  <//>`;
}

function Busiest({ overview }) {
  const rows = overview.brokers.flatMap((each) => each.busiest)
    .sort((a, b) => b.records_in + b.records_out - a.records_in - a.records_out).slice(0, 8);
  return html`<${Card} title="Busiest topics" actions=${html`<a href=${link(["topics"], { order: "records_in", descending: true })}>All topics</a>`}>
    <${Table} label="Busiest topics" rows=${rows} rowKey=${(row) => row.topic}
      empty=${html`<${Empty} title="No traffic">Publish something: <code>sulina produce /default/hello "hello"</code><//>`}
      columns=${[
        { label: "Topic", cell: (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>` },
        { label: "In", number: true, cell: (row) => rate(row.records_in) },
        { label: "Out", number: true, cell: (row) => rate(row.records_out) },
        { label: "Backlog", number: true, cell: (row) => compact(row.backlog) },
      ]} />
  <//>`;
}

function Settings() {
  const changes = useLoaded(() => get("/config/history", { limit: SHOWN }), [], 30000);
  return html`<${Card} title="Settings changed last" actions=${html`<a href=${link(["settings"])}>All settings</a>`}>
    <${Loaded} from=${changes}>${(rows) => html`<${Table} label="Settings changed last" rows=${rows} rowKey=${(row) => row.number}
      empty=${html`<${Empty} title="Nothing was changed">All settings have the values that the brokers started with. Brokers started with <code>--audit on</code> show all changes here.<//>`}
      columns=${[
        { label: "When", cell: (row) => html`<${Time} us=${row.at_us} relative />` },
        { label: "Setting", cell: (row) => row.name },
        { label: "Value", cell: (row) => html`${row.old ?? "default"} → ${row.new ?? "default"}` },
        { label: "By", cell: (row) => row.by || "–" },
      ]} />`}<//>
  <//>`;
}

/** Pages of what changes are about, by the first word of the operation. */
const PLACES = {
  balance: ["balance"], binding: ["security"], broker: ["brokers"], config: ["settings"], principal: ["security"],
  role: ["security"], schema: ["schemas"], schemas: ["schemas"], storage: ["storage"], token: ["security"],
};

function placeOf({ operation, resource }) {
  if (/^\/[^/\s]+\/[^/\s]+$/.test(resource) && operation !== "topic.delete") return topicLink(resource);
  const page = PLACES[operation.split(".")[0]];
  return page && link(page);
}

/** What an act was given is in its record; how it ended is in a later one, which is newer. */
function acts(records) {
  const ended = new Map(records.filter((each) => each.event === "outcome")
    .map((each) => [`${each.broker} ${each.act}`, each]));
  return records.filter((each) => each.event === "act").slice(0, SHOWN)
    .map((each) => ({ ...each, end: ended.get(`${each.broker} ${each.sequence}`) }));
}

function Changes() {
  const trail = useLoaded((signal) => get("/topic-search", { text: TRAIL, limit: 1 }, signal), []);
  return html`<${Loaded} from=${trail}>${(found) => (found.total ? html`<${Audited} />` : html`<${Settings} />`)}<//>`;
}

function Audited() {
  const changes = useLoaded((signal) => get("/audit", { newest_first: true, limit: 100 }, signal), [], 30000);
  return html`<${Card} title="Changed last" actions=${html`<a href=${link(["security"], { tab: "audit" })}>The audit trail</a>`}>
    <${Loaded} from=${changes}>${(page) => html`<${Table} label="Changed last" rows=${acts(page.records.map((each) => each.record).filter(Boolean))}
      rowKey=${(row) => `${row.broker} ${row.sequence}`}
      empty=${html`<${Empty} title="Nothing was changed">Topics, policies, cursors, rights, brokers and settings that somebody changes appear here.<//>`}
      columns=${[
        { label: "When", cell: (row) => html`<${Time} us=${row.time_us} relative />` },
        { label: "Who", cell: (row) => row.principal || "–" },
        { label: "What", cell: (row) => words(row.operation.replaceAll(".", " ")) },
        { label: "On", cell: (row) => {
          const place = placeOf(row);
          return html`<span class="name">${place ? html`<a href=${place}>${row.resource || "the cluster"}</a>` : row.resource}</span>`;
        } },
        { label: "Outcome", cell: (row) => html`<${Outcome} of=${row.end ?? row} />` },
      ]} />`}<//>
  <//>`;
}

/** Those that the caller may look up, with what everybody who may has of them. */
function Own() {
  const found = useLoaded((signal) => get("/topic-search", { order: "records_in", descending: true, limit: SHOWN }, signal), [], 5000);
  return html`<${Card} title="Your topics" actions=${html`<a href=${link(["topics"])}>All topics</a>`}>
    <${Loaded} from=${found}>${(page) => html`<${Table} label="Your topics" rows=${page.topics} rowKey=${(row) => row.topic}
      empty=${html`<${Empty} title="There are none">Ask whoever runs the cluster for a right, such as <code>consume:/default/orders</code><//>`}
      columns=${[
        { label: "Topic", cell: (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>` },
        { label: "In", number: true, cell: (row) => rate(row.records_in) },
        { label: "Out", number: true, cell: (row) => rate(row.records_out) },
        { label: "Backlog", number: true, cell: (row) => compact(row.backlog) },
        { label: "Consumers", number: true, cell: (row) => count(row.consumers) },
      ]} />${page.total > SHOWN && html`<p class="muted">The busiest ${count(SHOWN)} of ${count(page.total)}.</p>`}`}<//>
  <//>`;
}

function Limited() {
  return html`<${Page} title="Overview">
    <${Note}>Rates and health of the whole cluster need the right <code>cluster:*</code>, which you do not have.
      Here is what you may see.<//>
    <div class="columns">
      <${Own} />
      <${Card} title="Subscriptions that need attention"><${Concerns} limit=${8} /><//>
    </div>
  <//>`;
}

export function Overview() {
  const { status, overview, history, problem } = useLive();
  if (status === "denied" || !may("cluster")) return html`<${Limited} />`;
  if (!overview) {
    return html`<${Page} title="Overview">${problem
      ? html`<${Trouble} problem=${problem} />` : html`<${Loading} />`}<//>`;
  }
  const samples = history.slice(-MINUTES * 12);
  return html`<${Page} title="Overview" actions=${html`<${CopyAs} cli="sulina cluster describe" path="/overview" />`}>
    ${status === "lost" && html`<${Note} kind="bad"><strong>This broker does not answer.</strong> What you see is from <${Time} us=${overview.total.wall_us} />.
      The page tries again by itself; meanwhile, open the console of another broker.<//>`}
    <${Tiles} overview=${overview} history=${history} />
    <div class="charts">
      <section class="card"><${Chart} title="Messages" samples=${samples} unit=${rate} series=${[
        { name: "in", className: "series-1", value: (each) => each.records_in },
        { name: "out", className: "series-2", value: (each) => each.records_out }]} /></section>
      <section class="card"><${Chart} title="Bytes" samples=${samples} unit=${byteRate} binary series=${[
        { name: "in", className: "series-1", value: (each) => each.bytes_in },
        { name: "out", className: "series-2", value: (each) => each.bytes_out }]} /></section>
      <section class="card"><${Chart} title="Publish latency" samples=${samples} unit=${millis} series=${[
        { name: "p50", className: "series-1", value: (each) => each.p50_ms },
        { name: "p99", className: "series-2", value: (each) => each.p99_ms }]} /></section>
      <section class="card"><${Chart} title="Backlog" samples=${samples} unit=${compact} series=${[
        { name: "messages", className: "series-1", value: (each) => each.backlog }]} /></section>
    </div>
    <${Health} overview=${overview} />
    <div class="columns">
      <${Card} title="Subscriptions that need attention" actions=${html`<a href=${link(["attention"])}>All</a>`}>
        <${Concerns} limit=${6} /><//>
      <${Busiest} overview=${overview} />
    </div>
    <${Changes} />
  <//>`;
}
