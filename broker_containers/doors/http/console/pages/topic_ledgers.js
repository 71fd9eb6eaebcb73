// The ledgers of a topic as a bar from cold to hot, with sizes and places; offload and verify.

import { get, post, topicPath } from "../api.js";
import { bytes, count } from "../format.js";
import { html } from "../html.js";
import { Act, Card, CopyAs, Empty, Loaded, Pill, Table, Time, useLoaded } from "../parts.js";
import { Pages } from "../paging.js";
import { may } from "../rights.js";

const KIND = { object: "cold", "entries and object": "both", entries: "hot" };
const WORDS = { cold: "in the object store", both: "in both places", hot: "on storage", open: "being written" };
const kindOf = (row) => (row.last_offset === null ? "open" : KIND[row.where]);

function Bar({ rows }) {
  const total = rows.reduce((sum, row) => sum + row.bytes, 0) || 1;
  const label = rows.map((row) => `ledger ${row.ledger}, ${bytes(row.bytes)}, ${WORDS[kindOf(row)]}`).join("; ");
  return html`<div class="stack">
    <div class="ledgers" role="img" aria-label=${`From cold to hot: ${label}`.slice(0, 900)}>
      ${rows.map((row) => html`<div key=${row.ledger} class=${kindOf(row)} style=${{ flexGrow: Math.max((row.bytes / total) * 1000, 5) }}
        title=${`Ledger ${row.ledger}: ${bytes(row.bytes)}, ${WORDS[kindOf(row)]}`}></div>`)}
    </div>
    <div class="legend">${Object.entries(WORDS).map(([kind, name]) => html`<span key=${kind}><i class=${`swatch ${kind}`} aria-hidden="true"></i>${name}</span>`)}</div>
  </div>`;
}

const SIZE = 50;

export function Ledgers({ topic, details, query }) {
  const path = `/topics/${topicPath(topic)}/tier`;
  const found = useLoaded((signal) => get(path, {}, signal), [topic], 5000);
  if (details.delivery !== "reliable") {
    return html`<${Card} title="Ledgers"><p class="muted">A non-reliable topic stores nothing, so it has no ledgers.</p><//>`;
  }
  const verify = (row) => html`<${Act} label="Verify" small title=${`Verify ledger ${row.ledger}`}
    explain="The whole object is read and compared with the recorded digest. That may take a while."
    act=${async () => {
      await post(`/topics/${topicPath(row.topic)}/tier/verify`, { ledger: row.ledger });
      return { show: "The object is intact." };
    }} copy=${() => ({ cli: `sulina ledger verify ${row.topic} ${row.ledger}`, verb: "POST", path: `/topics/${topicPath(row.topic)}/tier/verify`, body: { ledger: row.ledger } })} />`;
  // The owner knows the size of the ledger that is being written; the metadata does not.
  const spans = new Map(details.logs.flatMap((log) => log.ledgers.map((each) => [`${log.topic} ${each.id}`, each.bytes])));
  const manage = may("topics", topic);
  const skip = Number(query.skip ?? 0);
  return html`<${Card} title="Ledgers" actions=${html`<${CopyAs} cli=${`sulina ledger list ${topic}`} path=${path} />
      ${manage && html`<${Act} label="Offload" title="Offload all ledgers now" explain="The ledger being written is closed, and all ledgers become objects."
        act=${async () => {
          const begun = await post(`${path}/offload`);
          return { show: `${count(begun.ledgers)} ledgers with ${bytes(begun.bytes)} are being tiered; this page shows them as they become objects.` };
        }} done=${found.reload} copy=${() => ({ cli: `sulina ledger offload ${topic}`, verb: "POST", path: `${path}/offload`, body: {} })} />`}`}>
    <${Loaded} from=${found}>${(all) => {
      const rows = all.map((row) => ({ ...row, bytes: Math.max(row.bytes, spans.get(`${row.topic} ${row.ledger}`) ?? 0) }));
      return html`${rows.length > 0 && html`<${Bar} rows=${rows} />`}
      <${Table} label="Ledgers" rows=${rows.toReversed().slice(skip, skip + SIZE)} rowKey=${(row) => `${row.topic} ${row.ledger}`}
        empty=${html`<${Empty} title="There are no ledgers yet">The first message creates one.<//>`}
        columns=${[
          details.partitions > 0 && { label: "Partition", number: true, cell: (row) => row.topic.match(/\d+$/)[0] },
          { label: "Ledger", number: true, cell: (row) => row.ledger },
          { label: "Where", cell: (row) => html`<span class="nowrap"><i class=${`swatch ${kindOf(row)}`} aria-hidden="true"></i>${WORDS[kindOf(row)]}</span>` },
          { label: "Offsets", number: true, cell: (row) => `${count(row.first_offset)} – ${row.last_offset === null ? "" : count(row.last_offset)}` },
          { label: "Size", number: true, cell: (row) => bytes(row.bytes) },
          { label: "Object", number: true, cell: (row) => (row.object_bytes === null ? "–" : bytes(row.object_bytes)) },
          { label: "First message", cell: (row) => html`<${Time} us=${row.first_time_us} />` },
          { label: "Key of the object", cell: (row) => (row.key ? html`<code class="short" title=${row.key}>${row.key.split("/").at(-1)}</code>` : html`<${Pill}>none yet<//>`) },
          manage && { label: "", cell: (row) => row.key && verify(row) },
        ].filter(Boolean)} />
      ${rows.length > SIZE && html`<${Pages} skip=${skip} size=${SIZE} total=${rows.length} />`}`;
    }}<//>
  <//>`;
}
