// One topic: its numbers, and tabs for messages, subscriptions, ledgers, policies, schema and erasures.

import { get, post, remove, topicPath } from "../api.js";
import { count } from "../format.js";
import { html } from "../html.js";
import { Act, Card, CopyAs, Facts, Field, Loaded, Page, Pill, Table, Tabs, Time, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link, topicLink } from "../router.js";
import { Erasures } from "./topic_erase.js";
import { Ledgers } from "./topic_ledgers.js";
import { Messages } from "./topic_messages.js";
import { Policies } from "./topic_policies.js";
import { TopicSchema } from "./topic_schema.js";
import { Subscriptions } from "./topic_subscriptions.js";
import { Topics } from "./topics.js";

const TABS = [
  ["messages", "Messages"], ["subscriptions", "Subscriptions"], ["ledgers", "Ledgers"],
  ["policies", "Policies"], ["schema", "Schema"], ["erase", "Erase"], ["partitions", "Partitions"],
];

function Actions({ topic, details, done }) {
  const path = `/topics/${topicPath(topic)}`;
  const brokers = useLoaded(() => (may("brokers") ? get("/brokers") : Promise.resolve([])), []);
  return html`
    <${CopyAs} cli=${`sulina topic describe ${topic}`} path=${path} />
    ${may("topics", topic) && html`
      ${(brokers.value?.length ?? 0) > 1 && !details.partitions && html`<${Act} label="Move" title="Move to another broker" initial=${{ broker: "" }}
        explain="Clients follow the topic; they notice a short pause."
        act=${async (values) => {
          const moved = await post(`${path}/move`, values.broker ? values : {});
          return { show: `The topic moves from ${moved.source} to ${moved.target}.` };
        }}
        copy=${(values) => ({ cli: `sulina topic move ${topic}${values.broker ? ` --to ${values.broker}` : ""}`, verb: "POST", path: `${path}/move`, body: values.broker ? values : {} })}
        fields=${(values, set) => html`<${Field} label="To"><select value=${values.broker} onChange=${(event) => set({ broker: event.target.value })}>
          <option value="">the least loaded broker</option>${brokers.value.map((each) => html`<option>${each.broker}</option>`)}</select><//>`} />`}
      <${Act} label="Delete" title="Delete the topic" kind="danger" typed=${topic}
        explain="All its messages, partitions and subscriptions are deleted, also those in the object store. This can't be undone."
        act=${() => remove(path)} done=${done} copy=${() => ({ cli: `sulina topic delete ${topic}`, verb: "DELETE", path })} />`}`;
}

function Partitions({ details }) {
  if (!details.partitions) {
    return html`<${Card} title="Partitions"><p class="muted">This topic has no partitions: it is one log.</p><//>`;
  }
  return html`<${Card} title="Partitions"><${Table} label="Partitions" rows=${details.logs} rowKey=${(row) => row.topic} columns=${[
    { label: "Partition", cell: (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>` },
    { label: "Messages", number: true, cell: (row) => count(row.end_offset - row.start_offset) },
    { label: "Offsets", number: true, cell: (row) => `${count(row.start_offset)} – ${count(row.end_offset)}` },
    { label: "Producers", number: true, cell: (row) => count(row.producers.length) },
    { label: "Subscriptions", number: true, cell: (row) => count(row.subscriptions.length) },
    { label: "Ledgers", number: true, cell: (row) => count(row.ledgers.length) },
  ]} /><//>`;
}

const VIEWS = { messages: Messages, subscriptions: Subscriptions, ledgers: Ledgers, policies: Policies, schema: TopicSchema, erase: Erasures, partitions: Partitions };

function One({ topic, query }) {
  const details = useLoaded((signal) => get(`/topics/${topicPath(topic)}`, {}, signal), [topic], 5000);
  const tab = VIEWS[query.tab] ? query.tab : "messages";
  const View = VIEWS[tab];
  return html`<${Page} title=${topic} back=${[link(["topics"]), "Topics"]}
      actions=${details.value && html`<${Actions} topic=${topic} details=${details.value} done=${() => { location.hash = link(["topics"]); }} />`}>
    <${Loaded} from=${details}>${(found) => {
      const total = found.logs.reduce((sum, log) => sum + log.end_offset - log.start_offset, 0);
      return html`<section class="card"><${Facts} line rows=${[
        ["Messages", count(total)],
        ["Delivery", html`<${Pill}>${found.delivery === "reliable" ? "reliable" : "non-reliable"}<//>`],
        found.partitions > 0 && ["Partitions", count(found.partitions)],
        found.partitions === 0 && ["Offsets", `${count(found.logs[0].start_offset)} – ${count(found.logs[0].end_offset)}`],
        ["Producers", count(new Set(found.logs.flatMap((log) => log.producers)).size)],
        ["Subscriptions", count(new Set(found.logs.flatMap((log) => log.subscriptions.map((each) => each.subscription))).size)],
        ["Created", html`<${Time} us=${found.created_us} />`],
      ]} /></section>
      <${Tabs} tabs=${TABS.filter(([key]) => key !== "partitions" || found.partitions)} now=${tab} href=${(key) => topicLink(topic, { tab: key })} />
      <${View} key=${tab} topic=${topic} details=${found} query=${query} reload=${details.reload} />`;
    }}<//>
  <//>`;
}

export function TopicPages({ path, query }) {
  return path.length >= 2 ? html`<${One} topic=${`/${path[0]}/${path[1]}`} query=${query} />` : html`<${Topics} query=${query} />`;
}
