// The lake: what became objects, freshness, failures, rows of a topic, and how to query it.

import { get, topicPath } from "../api.js";
import { bytes, count, duration } from "../format.js";
import { html, useState } from "../html.js";
import { useLive } from "../live.js";
import { Card, CopyAs, CopyButton, Empty, Facts, Loaded, Note, Page, Pill, Table, Time, useLoaded } from "../parts.js";
import { link, setQuery, topicLink } from "../router.js";

function Freshness({ topic }) {
  const found = useLoaded((signal) => get(`/topics/${topicPath(topic)}/tier`, {}, signal), [topic], 10000);
  return html`<${Loaded} from=${found}>${(rows) => {
    const objects = rows.filter((row) => row.key);
    const newest = Math.max(0, ...objects.map((row) => row.last_time_us));
    return html`<${Facts} rows=${[
      ["Objects", count(objects.length)],
      ["Their size", bytes(objects.reduce((sum, row) => sum + row.object_bytes, 0))],
      ["Messages in objects", count(objects.reduce((sum, row) => sum + row.records, 0))],
      ["Newest message in an object", newest ? html`<${Time} us=${newest} relative />` : "none yet"],
      ["Ledgers that are not objects yet", count(rows.length - objects.length)],
    ]} />
    ${objects.length > 0 && html`<h3>Newest object</h3><code>${objects.at(-1).key}</code>`}`;
  }}<//>`;
}

function Sample({ topic }) {
  const found = useLoaded((signal) => get(`/topics/${topicPath(topic)}/message-search`, { limit: 5, newest_first: true }, signal), [topic]);
  return html`<${Loaded} from=${found}>${(page) => html`<${Table} label="Sample of rows" rows=${page.messages} rowKey=${(row) => row.offset}
    empty=${html`<${Empty} title="The topic is empty">There are no rows to show.<//>`}
    columns=${[
      { label: "offset", number: true, cell: (row) => count(row.offset) },
      { label: "publish_time", cell: (row) => html`<${Time} us=${row.time_us} />` },
      { label: "key", cell: (row) => html`<code>${row.key ?? ""}</code>` },
      { label: "payload", cell: (row) => html`<div class="payload">${row.decoded ?? row.payload ?? "binary data"}</div>` },
    ]} />`}<//>`;
}

function Paste({ topic }) {
  const [namespace, name] = topic.slice(1).split("/");
  const lines = [
    ["DuckDB", `sulina sql 'SELECT * FROM "${topic}" LIMIT 10'`],
    ["Spark", `spark.read.format("sulina").option("path", "LAKE").option("topic", "${topic}").load()`],
    ["Athena", `SELECT * FROM sulina.${namespace}__${name} LIMIT 10`],
  ];
  return html`<div class="stack">${lines.map(([name, text]) => html`<div key=${name} class="command"><span>${name}</span><code>${text}</code><${CopyButton} text=${text} /></div>`)}</div>`;
}

export function Lake({ query }) {
  const { overview } = useLive();
  const [text, setText] = useState(query.topic ?? "");
  const tiers = (overview?.brokers ?? []).filter((each) => each.tier);
  const submit = (event) => {
    event.preventDefault();
    setQuery({ topic: text }, false);
  };
  return html`<${Page} title="Lake" about="Closed ledgers become Parquet objects, which Spark and SQL engines read."
      actions=${html`<${CopyAs} cli="sulina table list" path="/overview" />`}>
    ${overview && !tiers.length && html`<${Note}>The brokers have no object store: start them with <code>--tier</code>, for example
      <code>sulina up --tier file:///tmp/lake</code>. Messages stay on storage until then.<//>`}
    ${tiers.length > 0 && html`<${Card} title="Tiering"><${Table} label="Tiering" rows=${tiers} rowKey=${(row) => row.broker} columns=${[
      { label: "Broker", cell: (row) => html`<a href=${link(["brokers", row.broker])}>${row.broker}</a>` },
      { label: "Object store", cell: (row) => html`<${Pill} kind=${row.tier.ready ? "good" : "bad"}>${row.tier.ready ? "available" : "not available"}<//>` },
      { label: "Lag", number: true, cell: (row) => duration(row.tier.lag_seconds) },
      { label: "Ledgers waiting", number: true, cell: (row) => count(row.tier.untiered_ledgers) },
      { label: "Bytes waiting", number: true, cell: (row) => bytes(row.tier.untiered_bytes) },
      { label: "Objects written", number: true, cell: (row) => count(row.tier.objects) },
      { label: "Failed attempts", number: true, cell: (row) => html`<${Pill} kind=${row.tier.failures ? "warn" : ""}>${count(row.tier.failures)}<//>` },
    ]} /><//>`}
    <${Card} title="A topic">
      <form class="filters" onSubmit=${submit}>
        <label class="field grow"><span>Topic</span><input type="search" placeholder="/default/orders" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
        <button type="submit" class="primary">Show</button>
      </form>
      ${query.topic ? html`<p><a href=${topicLink(query.topic, { tab: "ledgers" })}>Ledgers and objects of ${query.topic}</a></p>
        <${Freshness} topic=${query.topic} />
        <h3>Sample of rows</h3><${Sample} topic=${query.topic} />
        <h3>Query it</h3><${Paste} topic=${query.topic} />`
        : html`<${Empty} title="Choose a topic">Its objects, their freshness, a sample of rows and the lines to query it appear here.<//>`}
    <//>
  <//>`;
}
