// All topics: searched, sorted and cut into pages by the broker, so that their number does not matter.

import { get, post, shellWord } from "../api.js";
import { bytes, compact, count, rate } from "../format.js";
import { html } from "../html.js";
import { Pages, SearchField } from "../paging.js";
import { Act, CopyAs, Empty, Field, Loaded, Page, Pill, Table, useLoaded } from "../parts.js";
import { setQuery, topicLink } from "../router.js";
import { may } from "../rights.js";

const SIZE = 50;

/** A number that stands back if it is zero. */
const quiet = (value, unit) => (value ? unit(value) : html`<span class="muted">0</span>`);

function Create({ done }) {
  return html`<${Act} label="Create topic" kind="primary" initial=${{ topic: "/default/", delivery: "reliable", partitions: 0 }}
    act=${(values) => post("/topics", { ...values, partitions: Number(values.partitions) })} done=${done}
    copy=${(values) => ({
      cli: `sulina topic create ${shellWord(values.topic)}${Number(values.partitions) ? ` --partitions ${values.partitions}` : ""}${values.delivery === "reliable" ? "" : " --non-reliable"}`,
      verb: "POST", path: "/topics", body: { ...values, partitions: Number(values.partitions) } })}
    fields=${(values, set) => html`
      <${Field} label="Name" hint="As /namespace/topic"><input required value=${values.topic} onInput=${(event) => set({ topic: event.target.value })} /><//>
      <${Field} label="Partitions" hint="0 for a topic without partitions"><input type="number" min="0" max="1000" value=${values.partitions} onInput=${(event) => set({ partitions: event.target.value })} /><//>
      <${Field} label="Delivery"><select value=${values.delivery} onChange=${(event) => set({ delivery: event.target.value })}>
        <option value="reliable">reliable: stored, acknowledged when durable</option>
        <option value="non_reliable">non-reliable: only for consumers that are connected</option></select><//>`} />`;
}

export function Topics({ query }) {
  const order = query.order ?? "name";
  const descending = query.descending === "true";
  const skip = Number(query.skip ?? 0);
  const asked = { text: query.text, order, descending: descending || undefined, skip: skip || undefined, limit: SIZE };
  const found = useLoaded((signal) => get("/topic-search", asked, signal), [query.text, order, descending, skip], 5000);
  const sorted = {
    by: order, descending,
    change: (by, down) => setQuery({ order: by, descending: down || undefined, skip: undefined }),
  };
  return html`<${Page} title="Topics" actions=${html`<${CopyAs} cli="sulina topic list" path="/topic-search" query=${asked} />
      ${(may("topics") || may("topics", "/default/*")) && html`<${Create} done=${found.reload} />`}`}>
    <section class="card">
      <div class="filters" role="search">
        <${SearchField} label="Search by name" text=${query.text} />
      </div>
      <${Loaded} from=${found}>${(page) => html`
        <${Table} label="Topics" rows=${page.topics} rowKey=${(row) => row.topic} sorted=${sorted}
          empty=${query.text
            ? html`<${Empty} title="No topic has this in its name">You see those that you may look up. <button type="button" class="plain" onClick=${() => setQuery({ text: undefined })}>Show all</button><//>`
            : html`<${Empty} title="There are no topics">A topic is created when it is first used: <code>sulina produce /default/hello "hello"</code><//>`}
          columns=${[
            { label: "Topic", sort: "name", cell: (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>
              ${row.partitions > 0 && html` <${Pill}>${row.partitions} partitions<//>`}${row.delivery !== "reliable" && html` <${Pill}>non-reliable<//>`}` },
            { label: "Messages", sort: "records", number: true, cell: (row) => html`<span title=${count(row.records)}>${quiet(row.records, compact)}</span>` },
            { label: "Size", number: true, cell: (row) => quiet(row.bytes, bytes) },
            { label: "In", sort: "records_in", number: true, cell: (row) => quiet(row.records_in, rate) },
            { label: "Out", sort: "records_out", number: true, cell: (row) => quiet(row.records_out, rate) },
            { label: "Backlog", sort: "backlog", number: true, cell: (row) => html`<span title=${count(row.backlog)}>${quiet(row.backlog, compact)}</span>` },
            { label: "Subscriptions", number: true, cell: (row) => quiet(row.subscriptions, count) },
            { label: "Consumers", sort: "consumers", number: true, cell: (row) => quiet(row.consumers, count) },
          ]} />
        <${Pages} skip=${skip} size=${SIZE} total=${page.total} />`}<//>
    </section>
  <//>`;
}
