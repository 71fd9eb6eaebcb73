// The lake: what became objects, freshness, failures, rows of a topic, and how to query it.

import { get, post, topicPath } from "../api.js";
import { bytes, count, duration } from "../format.js";
import { html } from "../html.js";
import { useLive } from "../live.js";
import { Pages, SearchField } from "../paging.js";
import { Act, Card, CopyAs, CopyButton, Empty, Facts, Loaded, Note, Page, Pill, Table, Time, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link, setQuery, topicLink } from "../router.js";

/** The messages of a log that are in no object yet. */
const waiting = (log, objects) => log.end_offset - Math.max(log.start_offset, ...objects.filter((row) => row.topic === log.topic).map((row) => row.last_offset + 1));

/** Of the partitions with messages that are in no object, the one with the oldest newest object. */
function furthestBehind(logs, objects) {
  const behind = logs.filter((log) => waiting(log, objects) > 0)
    .map((log) => [log.topic, Math.max(0, ...objects.filter((row) => row.topic === log.topic).map((row) => row.last_time_us))]);
  return behind.toSorted(([, one], [, other]) => one - other)[0];
}

function Freshness({ topic, logs }) {
  const found = useLoaded((signal) => get(`/topics/${topicPath(topic)}/tier`, {}, signal), [topic], 10000);
  return html`<${Loaded} from=${found}>${(rows) => {
    const objects = rows.filter((row) => row.key);
    const newest = Math.max(0, ...objects.map((row) => row.last_time_us));
    const behind = logs.length > 1 && furthestBehind(logs, objects);
    return html`<${Facts} rows=${[
      ["Objects", count(objects.length)],
      ["Their size", bytes(objects.reduce((sum, row) => sum + row.object_bytes, 0))],
      ["Messages in objects", count(objects.reduce((sum, row) => sum + row.records, 0))],
      ["Newest message in an object", newest ? html`<${Time} us=${newest} relative />` : "none yet"],
      logs.length > 1 && ["Partition furthest behind", behind
        ? html`${behind[0]}: ${behind[1] ? html`<${Time} us=${behind[1]} relative />` : "no object yet"}` : "none, all messages are in objects"],
      ["Messages not in objects yet", count(logs.reduce((sum, log) => sum + waiting(log, objects), 0))],
      ["Ledgers that are not objects yet", count(rows.length - objects.length)],
    ]} />
    ${objects.length > 0 && html`<h3>Newest object</h3><code>${objects.reduce((last, row) => (row.last_time_us > last.last_time_us ? row : last)).key}</code>`}`;
  }}<//>`;
}

const columns = (place, parted) => [
  (place || parted) && { label: "partition", number: true, cell: (row) => count(row.partition) },
  { label: "offset", number: true, cell: (row) => count(row.offset) },
  { label: "publish_time", cell: (row) => html`<${Time} us=${row.time_us} />` },
  { label: "key", cell: (row) => html`<code class="short" title=${row.key}>${row.key ?? ""}</code>` },
  { label: place ? "value or payload" : "payload", className: "payload-cell", cell: (row) => html`<div class="payload">${row.value ?? row.decoded ?? row.payload ?? "binary data"}</div>` },
  place && { label: "value_error", cell: (row) => row.value_error ?? "" },
].filter(Boolean);

const SAMPLE = 5;
const MOST_SAMPLED = 8;

/** The newest messages of up to 8 partitions that have messages. */
async function newest(logs, signal) {
  const some = logs.map((log, partition) => ({ ...log, partition })).filter((log) => log.end_offset > log.start_offset).slice(0, MOST_SAMPLED);
  const each = await Promise.all(some.map(async ({ topic, partition }) => {
    const found = await get(`/topics/${topicPath(topic)}/message-search`, { limit: SAMPLE, newest_first: true }, signal);
    return found.messages.map((message) => ({ ...message, partition }));
  }));
  return each.flat().toSorted((one, other) => other.time_us - one.time_us).slice(0, SAMPLE);
}

/** The newest rows of the table or, without one, the newest messages. */
function Sample({ topic, logs, table }) {
  const found = useLoaded((signal) => (table
    ? get(`/topics/${topicPath(topic)}/table/sample`, { limit: SAMPLE }, signal)
    : newest(logs, signal)), [topic, table?.committed_us]);
  return html`<p class="muted">${table ? "The newest rows of the table." : "The newest messages; they are rows once they are in objects."}</p>
    <${Loaded} from=${found}>${(value) => html`<${Table} label="Sample of rows" rows=${value}
      rowKey=${(row) => `${row.partition} ${row.offset}`}
      empty=${html`<${Empty} title="There are no rows">Publish something, and wait until its ledger is an object.<//>`}
      columns=${columns(Boolean(table), logs.length > 1)} />`}<//>`;
}

function Paste({ topic, table, places }) {
  const [namespace, name] = topic.slice(1).split("/");
  const lake = places.lake || "LAKE";
  const named = `${places.database || "sulina"}.${(table?.table ?? `${namespace}__${name}`).split(".").at(-1)}`;
  const lines = [
    ["sulina sql", `sulina sql 'SELECT * FROM "${topic}" LIMIT 10'`],
    ["DuckDB", `SELECT * FROM read_parquet('${lake}/ledgers/namespace=${namespace}/topic=${name}/*/*.parquet', hive_partitioning = true) LIMIT 10`],
    ["Spark", `spark.read.format("sulina").option("path", "${lake}").option("topic", "${topic}").load()`],
    ["Athena", `SELECT * FROM ${named} LIMIT 10`],
  ];
  return html`${!places.lake && html`<p class="muted">LAKE is the brokers' <code>--tier</code>, such as s3://bucket/prefix.</p>`}
    <div class="stack">${lines.map(([name, text]) => html`<div key=${name} class="command"><span>${name}</span><code>${text}</code><${CopyButton} text=${text} /></div>`)}</div>`;
}

/** The Iceberg table of a topic, if the brokers know a catalog. */
function Iceberg({ topic, table, reload }) {
  const path = `/topics/${topicPath(topic)}/table/backfill`;
  const update = may("topics", topic) && html`<${Act} small label=${table ? "Bring it up to date" : "Create the table"} title=${table ? "Bring it up to date" : "Create the table"}
    explain="Adds the objects of the topic that its table lacks." act=${() => post(path)} done=${reload}
    copy=${() => ({ cli: `sulina table backfill ${topic}`, verb: "POST", path })} />`;
  const tier = `/topics/${topicPath(topic)}/tier/rewrite`;
  const rewrite = may("topics", topic) && html`<${Act} small label="Rewrite objects" title="Rewrite objects that lack typed columns"
    explain="Replaces them in the background by objects with the columns of all versions of the schema. Then bring the table up to date." act=${() => post(tier)} done=${reload}
    copy=${() => ({ cli: `sulina ledger rewrite ${topic}`, verb: "POST", path: tier })} />`;
  return html`<h3>Iceberg table</h3>
    ${table ? html`<${Facts} rows=${[
      ["Table", html`<code>${table.table}</code>`],
      ["Rows", count(table.records)],
      ["Objects", `${count(table.objects)}, ${bytes(table.bytes)}`],
      ["Snapshots", count(table.snapshots)],
      ["Behind the topic", table.behind_seconds ? duration(table.behind_seconds) : "no"],
      ["Changed", html`<${Time} us=${table.committed_us} relative />`],
      ["Payloads that do not fit the schema", count(table.rejected)],
      ["Rows that lack the newest columns", table.lacking_columns ? html`<${Pill} kind="warn">${count(table.lacking_columns)}<//>
        <small>null in these columns, defaults or not, until their objects are rewritten</small>` : "none"],
    ]} />` : html`<p class="muted">The topic has no table yet.</p>`}
    <p>${update} ${table?.lacking_columns > 0 && rewrite}</p>`;
}

const SIZE = 50;

function All({ query, skip, asked, found }) {
  return html`<${Card} title="Topics" actions=${html`<${CopyAs} path="/lake" query=${asked} />`}>
    <div class="filters" role="search"><${SearchField} label="Search topics by name" text=${query.text} />
      <label class="check"><input type="checkbox" checked=${query.failed === "true"}
        onChange=${(event) => setQuery({ failed: event.target.checked || undefined, skip: undefined })} /> only with failures</label></div>
    <${Loaded} from=${found}>${(page) => html`
      <${Table} label="Topics in the lake" rows=${page.topics} rowKey=${(row) => row.topic}
        empty=${query.failed ? html`<${Empty} title="Nothing failed">No ledger waits after a failed attempt.<//>`
          : html`<${Empty} title=${query.text ? "No topic has this in its name" : "There are no topics"}>You see those that you may look up.<//>`}
        columns=${[
          { label: "Topic", cell: (row) => html`<a href=${link(["lake"], { ...query, topic: row.topic })}>${row.topic}</a>` },
          { label: "Objects", number: true, cell: (row) => count(row.objects) },
          { label: "Size", number: true, cell: (row) => bytes(row.object_bytes) },
          { label: "Messages", number: true, cell: (row) => count(row.records) },
          { label: "Newest in an object", cell: (row) => html`<${Time} us=${row.newest_us} relative />` },
          { label: "Waiting", number: true, cell: (row) => (row.waiting_ledgers ? `${count(row.waiting_ledgers)} ledgers, ${bytes(row.waiting_bytes)}` : html`<span class="muted">0</span>`) },
          { label: "Waiting since", cell: (row) => html`<${Time} us=${row.waiting_since_us} relative />` },
          { label: "Failures", cell: (row) => (row.failed_ledgers
            ? html`<${Pill} kind="bad">${count(row.failed_ledgers)} ledgers<//> <small>${row.failure}</small>` : html`<span class="muted">none</span>`) },
        ]} />
      <${Pages} skip=${skip} size=${SIZE} total=${page.total} />`}<//>
  <//>`;
}

function Topic({ topic, places }) {
  const found = useLoaded((signal) => get(`/topics/${topicPath(topic)}`, {}, signal), [topic], 10000);
  const tables = useLoaded((signal) => (places.catalog ? get("/tables", {}, signal) : []), [topic, places.catalog], 30000);
  const table = tables.value?.find((each) => each.topic === topic);
  return html`<${Card} title=${topic} actions=${html`<${CopyAs} cli=${`sulina ledger list ${topic}`} path=${`/topics/${topicPath(topic)}/tier`} />
      <a class="button small" href=${topicLink(topic, { tab: "ledgers" })}>Ledgers and objects</a>`}>
    <${Loaded} from=${found}>${({ logs }) => html`<${Freshness} topic=${topic} logs=${logs} />
        ${places.catalog && html`<${Loaded} from=${tables}>${() => html`<${Iceberg} topic=${topic} table=${table} reload=${tables.reload} />`}<//>`}
        <h3>Sample of rows</h3>${tables.value && may("consume", topic) && html`<${Sample} topic=${topic} logs=${logs} table=${table} />`}
        <h3>Query it</h3><${Paste} topic=${topic} table=${table} places=${places} />`}<//>
  <//>`;
}

export function Lake({ query }) {
  const { overview } = useLive();
  const skip = Number(query.skip ?? 0);
  const asked = { text: query.text, failed: query.failed, skip: skip || undefined, limit: SIZE };
  const found = useLoaded((signal) => get("/lake", asked, signal), [query.text, query.failed, skip], 10000);
  const tiers = (overview?.brokers ?? []).filter((each) => each.tier);
  return html`<${Page} title="Lake" about="Closed ledgers become Parquet objects, which Spark and SQL engines read."
      actions=${html`<${CopyAs} path="/lake" />`}>
    ${overview && !tiers.length && html`<${Note}>The brokers have no object store: start them with <code>--tier</code>, for example
      <code>sulina up --tier file:///tmp/lake</code>. Messages stay on storage until then.<//>`}
    ${tiers.length > 0 && html`<${Card} title="Tiering"><${Table} label="Tiering" rows=${tiers} rowKey=${(row) => row.broker} columns=${[
      { label: "Broker", cell: (row) => html`<a href=${link(["brokers", row.broker])}>${row.broker}</a>` },
      { label: "Object store", cell: (row) => html`<${Pill} kind=${row.tier.ready ? "good" : "bad"}>${row.tier.ready ? "available" : "not available"}<//>` },
      { label: "Lag", number: true, cell: (row) => duration(row.tier.lag_seconds) },
      { label: "Ledgers waiting", number: true, cell: (row) => count(row.tier.untiered_ledgers) },
      { label: "Bytes waiting", number: true, cell: (row) => bytes(row.tier.untiered_bytes) },
      { label: "Objects written", number: true, cell: (row) => count(row.tier.objects) },
      { label: "Failed attempts", number: true, cell: (row) => (row.tier.failures ? html`<${Pill} kind="warn">${count(row.tier.failures)}<//>` : html`<span class="muted">0</span>`) },
    ]} /><//>`}
    ${query.topic && found.value && html`<${Topic} key=${query.topic} topic=${query.topic} places=${found.value} />`}
    <${All} query=${query} skip=${skip} asked=${asked} found=${found} />
  <//>`;
}
