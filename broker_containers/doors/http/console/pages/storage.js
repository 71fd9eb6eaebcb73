// Storage: nodes, disks, ledgers under-replicated or in doubt, recovery under way.

import { get } from "../api.js";
import { bytes, count, percent, words } from "../format.js";
import { html } from "../html.js";
import { Card, CopyAs, Empty, Facts, Loaded, Meter, Page, Pill, Table, useLoaded } from "../parts.js";

export function Storage() {
  const found = useLoaded((signal) => get("/storage", {}, signal), [], 5000);
  return html`<${Page} title="Storage" about="Where messages are durable." actions=${html`<${CopyAs} path="/storage" />`}>
    <${Loaded} from=${found}>${(value) => html`
      <section class="card"><${Facts} rows=${[
        ["Messages are stored", value.embedded ? "in the broker's own journal" : `on ${count(value.nodes.length)} storage nodes`],
        ["Copies", count(value.write_quorum)],
        ["Durable before an acknowledgement", count(value.ack_quorum)],
        value.disk_bytes && ["Disk free", `${bytes(value.disk_free_bytes)} of ${bytes(value.disk_bytes)}`],
        value.disk_bytes && ["Disk used", html`${percent(1 - value.disk_free_bytes / value.disk_bytes)}
          <${Meter} share=${1 - value.disk_free_bytes / value.disk_bytes} label="Disk used" />`],
      ]} /></section>
      ${!value.embedded && html`<${Card} title="Storage nodes"><${Table} label="Storage nodes" rows=${value.nodes} rowKey=${(row) => row.node} columns=${[
        { label: "Node", cell: (row) => row.node },
        { label: "State", cell: (row) => html`<${Pill} kind=${row.healthy ? "good" : "bad"}>${row.healthy ? "healthy" : row.trouble}<//>` },
        { label: "Address", cell: (row) => html`<code>${row.address}</code>` },
        { label: "Zone", cell: (row) => row.zone || "–" },
        { label: "Waiting for its disk", number: true, cell: (row) => bytes(row.pending_bytes) },
        { label: "Object store", cell: (row) => (row.object_store ? html`<code>${row.object_store}</code>` : "none") },
      ]} /><//>
      <${Card} title="Ledgers in doubt"><${Table} label="Ledgers in doubt" rows=${value.in_doubt} rowKey=${(row) => row.ledger}
        empty=${html`<${Empty} title="All is well">${count(value.ledgers_checked)} ledgers were looked at: none is being recovered, and all have their copies.<//>`}
        columns=${[
          { label: "Ledger", number: true, cell: (row) => row.ledger },
          { label: "State", cell: (row) => html`<${Pill} kind="warn">${row.under_replicated ? "fewer copies than it should have" : words(row.phase)}<//>` },
          { label: "Nodes", cell: (row) => row.nodes.join(", ") },
        ]} /><//>`}`}<//>
  <//>`;
}
