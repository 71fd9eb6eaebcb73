// The limits in force for a topic, where each comes from, and changing them.

import { get, patch, post, topicPath } from "../api.js";
import { bytes, count, duration, words } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Act, Card, CopyAs, Empty, Field, Loaded, Pill, Table, Time, Trouble, useLoaded } from "../parts.js";
import { may } from "../rights.js";

/** What 0 means where it is not "no limit". */
const ZERO = {
  local_retention_ms: "the brokers' setting", local_retention_bytes: "the brokers' setting", delete_unused_ms: "never",
  tombstone_retention_ms: "for good", freshness_ms: "the brokers' setting", merge_bytes: "the brokers' setting",
};

const HELP = {
  max_producers_per_topic: "Producers that may be connected at once.",
  max_subscriptions_per_topic: "Subscriptions that the topic may have.",
  max_consumers_per_topic: "Consumers of all subscriptions together.",
  max_consumers_per_subscription: "Consumers of one subscription.",
  max_message_size: "The largest message, before compression.",
  retention_ms: "Older messages may be deleted, consumed or not.",
  retention_bytes: "The oldest messages beyond this size may be deleted.",
  delete_consumed: "Messages that every subscription has acknowledged may be deleted.",
  ttl_ms: "Older messages are not delivered any more.",
  local_retention_ms: "How long messages stay on storage after they are in an object.",
  local_retention_bytes: "How much of the newest data stays on storage, too.",
  local_delete_consumed: "Storage keeps no messages that are in an object and acknowledged by all.",
  backlog_bytes: "How far the slowest subscription may be behind.",
  backlog_drop_oldest: "Beyond that, the oldest messages are deleted instead of refusing producers.",
  delete_unused_ms: "A topic that nobody used for this long is deleted with its data.",
  compact: "Of messages with the same key, only the newest is kept in objects.",
  tombstone_retention_ms: "How long compaction keeps the mark of a deleted key.",
  freshness_ms: "How soon after it was published a message is in an object.",
  merge_bytes: "Up to which size neighbouring small objects are merged.",
};

/** A value of a policy with its unit, which its name says. */
export function policyValue(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === 0) return ZERO[name] ?? "no limit";
  if (name.endsWith("_ms")) return duration(value / 1000);
  if (/bytes|size/.test(name)) return bytes(value);
  return typeof value === "number" ? count(value) : String(value);
}

/** Partitions that are asked for a preview; there may be a thousand. */
const MOST_PREVIEWED = 32;
const PREVIEWED = ["retention_ms", "retention_bytes", "delete_consumed"];

/** What retention would remove at once with another value, before it is changed. */
function Preview({ topics, name, value }) {
  const [state, setState] = useState(null);
  useEffect(() => {
    setState(null);
    const abort = new AbortController();
    Promise.all(topics.map((each) => get(`/topics/${topicPath(each)}/retention`, { [name]: value }, abort.signal))).then(
      (all) => setState({ found: { now_us: Math.max(...all.map((each) => each.now_us)), ledgers: all.flatMap((each) => each.ledgers) } }),
      (problem) => problem.name !== "AbortError" && setState({ problem }),
    );
    return () => abort.abort();
  }, [value]);
  if (state?.problem) return html`<${Trouble} problem=${state.problem} />`;
  if (!state) return html`<div class="note" role="status">Looking…</div>`;
  const { ledgers, now_us: now } = state.found;
  const leaving = ledgers.filter((row) => row.leaves_us !== null);
  const atOnce = leaving.filter((row) => row.leaves_us <= now);
  const next = leaving.filter((row) => row.leaves_us > now).map((row) => row.leaves_us);
  const size = atOnce.reduce((sum, row) => sum + row.bytes, 0);
  return html`<div class="note" role="status">
    <strong>${atOnce.length ? `${count(atOnce.length)} of ${count(ledgers.length)} ledgers, ${bytes(size)}, leave the topic at once` : "Nothing leaves the topic at once"}</strong>
    <p>${atOnce.length > 0 && topics.length === 1 && `Those up to offset ${count(atOnce.at(-1).last_offset)}. `}${next.length
      ? html`The next one leaves at <${Time} us=${Math.min(...next)} />, if nothing more is published or acknowledged.` : "All others stay."}</p></div>`;
}

function Change({ path, topic, name, value, previewed, done }) {
  const parse = (text) => (text === "" ? null : typeof value === "boolean" ? text === "true" : Number(text));
  return html`<${Act} label="Change" small title=${`Change ${words(name)}`} initial=${{ text: String(value) }}
    explain=${html`${HELP[name] ?? ""} ${typeof value === "boolean" ? "" : html`0 means: ${ZERO[name] ?? "no limit"}.`} Empty leaves it to the namespace.`}
    act=${(values) => patch(path, { [name]: parse(values.text) })} done=${done}
    copy=${(values) => ({ cli: `sulina topic policy ${topic} ${name}=${values.text === "" ? "default" : values.text}`, verb: "PATCH", path, body: { [name]: parse(values.text) } })}
    fields=${(values, set) => html`<${Field} label=${`${words(name)}${name.endsWith("_ms") ? ", milliseconds" : /bytes|size/.test(name) ? ", bytes" : ""}`}>
      ${typeof value === "boolean"
        ? html`<select value=${values.text} onChange=${(event) => set({ text: event.target.value })}><option value="">the namespace's</option><option>true</option><option>false</option></select>`
        : html`<input type="number" min="0" value=${values.text} onInput=${(event) => set({ text: event.target.value })} />`}<//>
      ${previewed && PREVIEWED.includes(name) && values.text !== "" && html`<${Preview} topics=${previewed} name=${name} value=${values.text} />`}`} />`;
}

/** What retention removes and when, and what it removed and can be restored. */
function Retention({ topic }) {
  const path = `/topics/${topicPath(topic)}/retention`;
  const found = useLoaded((signal) => get(path, {}, signal), [topic], 10000);
  return html`<${Card} title="What retention removes" actions=${html`<${CopyAs} cli=${`sulina topic retention ${topic}`} path=${path} />
      ${may("topics", topic) && found.value?.removed.length > 0 && html`<${Act} label="Restore" title="Restore what was removed"
        explain="What retention removed becomes readable again, as long as its data is kept. Change the policy first, or it is removed again. Subscriptions that have passed it stay where they are."
        act=${async () => {
          const done = await post(`${path}/undo`);
          return { show: `${count(done.ledgers)} ledgers were restored; the topic begins at offset ${count(done.start_offset)}.` };
        }} done=${found.reload} copy=${() => ({ cli: `sulina topic retention ${topic} --undo`, verb: "POST", path: `${path}/undo`, body: {} })} />`}`}>
    <${Loaded} from=${found}>${({ removed, ledgers }) => html`<${Table} label="What retention removes"
      rows=${[...removed.map((row) => ({ ...row, removed: true })), ...ledgers.filter((row) => row.leaves_us !== null)]} rowKey=${(row) => row.ledger}
      empty=${html`<${Empty} title="Nothing is removed">By the policies above, all messages stay, or what is stored now stays for good.<//>`}
      columns=${[
        { label: "Ledger", number: true, cell: (row) => row.ledger },
        { label: "Offsets", number: true, cell: (row) => `${count(row.first_offset)} – ${row.last_offset === null ? "" : count(row.last_offset)}` },
        { label: "Size", number: true, cell: (row) => bytes(row.bytes) },
        { label: "Leaves the topic", cell: (row) => (row.removed ? html`<${Pill} kind="warn">removed<//>` : html`<${Time} us=${row.leaves_us} />`) },
        { label: "Because of", cell: (row) => (row.reason ? words(row.reason) : "–") },
        { label: "Data is deleted", cell: (row) => html`<${Time} us=${row.deleted_us} />` },
      ]} />`}<//>
  <//>`;
}

export function Policies({ topic, details }) {
  const path = `/topics/${topicPath(topic)}/policy`;
  const found = useLoaded(async (signal) => {
    const [policy, sources] = await Promise.all([get(path, {}, signal), get(`${path}/sources`, {}, signal)]);
    return Object.entries(policy).map(([name, value]) => ({ name, value, source: sources[name] }));
  }, [topic]);
  const logs = details.delivery === "reliable" ? details.logs.map((log) => log.topic) : [];
  const previewed = logs.length > 0 && logs.length <= MOST_PREVIEWED ? logs : null;
  const stored = details.delivery === "reliable" && !details.partitions;
  return html`<div class="stack"><${Card} title="Policies" actions=${html`<${CopyAs} cli=${`sulina topic policy ${topic}`} path=${path} />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="Policies" rows=${rows} rowKey=${(row) => row.name} columns=${[
      { label: "Policy", cell: (row) => html`${words(row.name)}<br /><small class="muted">${HELP[row.name] ?? ""}</small>` },
      { label: "Value", cell: (row) => html`<span title=${String(row.value)}>${policyValue(row.name, row.value)}</span>` },
      { label: "Comes from", cell: (row) => html`<${Pill} kind=${row.source === "topic" ? "accent" : ""}>${row.source === "topic" ? "this topic" : `the ${words(row.source)}`}<//>` },
      may("topics", topic) && { label: "", cell: (row) => html`<${Change} path=${path} topic=${topic} name=${row.name} value=${row.value} previewed=${previewed} done=${found.reload} />` },
    ].filter(Boolean)} />`}<//>
  <//>${stored && html`<${Retention} topic=${topic} />`}</div>`;
}
