// Subscriptions of the whole cluster that are stalled, fail or fall behind, the worst first.

import { get } from "../api.js";
import { compact, count, rate, words } from "../format.js";
import { html } from "../html.js";
import { CopyAs, Empty, Loaded, Page, Pill, Table, useLoaded } from "../parts.js";
import { topicLink } from "../router.js";

const KINDS = { stalled: "bad", failing: "bad", no_progress: "warn", growing: "warn", no_consumers: "" };

export function Concerns({ limit = 100 }) {
  const found = useLoaded((signal) => get("/overview/attention", { limit }, signal), [limit], 5000);
  return html`<${Loaded} from=${found}>${(rows) => html`<${Table} label="Subscriptions that need attention"
    rows=${rows} rowKey=${(row) => `${row.topic} ${row.subscription}`}
    empty=${html`<${Empty} title="All is well">No subscription is stalled, fails or falls behind.<//>`}
    columns=${[
      { label: "Subscription", cell: (row) => html`<a href=${topicLink(row.topic, { tab: "subscriptions", subscription: row.subscription })}>
        ${row.subscription}</a><br /><small class="muted name">${row.topic}</small>` },
      { label: "Why", cell: (row) => html`<${Pill} kind=${KINDS[row.concern]} title=${row.detail}>${words(row.concern)}<//>
        ${limit > 10 && html`<br /><small class="wrap">${row.detail}</small>`}` },
      { label: "Backlog", number: true, cell: (row) => html`<span title=${count(row.backlog)}>${compact(row.backlog)}</span>` },
      limit > 10 && { label: "Growth", number: true, cell: (row) => (row.growth ? rate(row.growth) : "–") },
      limit > 10 && { label: "Consumers", number: true, cell: (row) => count(row.consumers) },
      limit > 10 && { label: "Broker", cell: (row) => html`<span class="nowrap">${row.broker}</span>` },
    ].filter(Boolean)} />`}<//>`;
}

export function Attention() {
  return html`<${Page} title="Subscriptions that need attention"
      about="Stalled, failing, without progress for a minute, with a growing backlog, or with a backlog and no consumers."
      actions=${html`<${CopyAs} cli="sulina top --once" path="/overview/attention" />`}>
    <section class="card"><${Concerns} /></section>
  <//>`;
}
