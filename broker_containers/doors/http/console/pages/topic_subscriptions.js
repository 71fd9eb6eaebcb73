// Subscriptions of a topic: lag, what is in flight, failures, who is connected; seek with a preview.

import { call, get, patch, post, remove, shellWord, topicPath } from "../api.js";
import { bytesOf, compact, count, duration, words } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Act, Card, CopyAs, Empty, Facts, Field, Loaded, Note, Pill, Table, Time, Trouble, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { setQuery, topicLink } from "../router.js";

const startOf = ({ kind, offset, time }) => {
  if (kind === "offset") return { offset: Number(offset) };
  if (kind === "time") return { time_us: new Date(time).getTime() * 1000 };
  return kind;
};

function Preview({ topic, values, row }) {
  const [state, setState] = useState(null);
  const ready = values.kind === "offset" ? values.offset !== "" : values.kind !== "time" || values.time;
  useEffect(() => {
    if (!ready) return setState(null);
    const abort = new AbortController();
    const start = startOf(values);
    const query = { start: typeof start === "string" ? start : JSON.stringify(start), limit: 1 };
    get(`/topics/${topicPath(topic)}/message-search`, query, abort.signal).then(
      (found) => setState({ found }),
      (problem) => problem.name !== "AbortError" && setState({ problem }),
    );
    return () => abort.abort();
  }, [values.kind, values.offset, values.time]);
  if (!ready || !state) return html`<div class="note">Choose a position to see where it is.</div>`;
  if (state.problem) return html`<${Trouble} problem=${state.problem} />`;
  const [message] = state.found.messages;
  const to = message ? message.offset : state.found.end_offset;
  const moved = to - row.position;
  const data = message && (message.decoded ?? message.payload ?? `${bytesOf(message, "payload").length} bytes of binary data`);
  return html`<div class="note" role="status">
    <strong>It lands at offset ${count(to)}</strong>
    <p>${moved === 0 ? "where it is now" : moved > 0 ? `${count(moved)} messages are skipped` : `${count(-moved)} messages are delivered again`};
      the backlog becomes ${count(state.found.end_offset - to)}.</p>
    ${message ? html`<p>The first message delivered is of <${Time} us=${message.time_us} />: <code>${data.slice(0, 200)}</code></p>`
      : html`<p>Only messages published from now on are delivered.</p>`}
  </div>`;
}

function Seek({ topic, row, done }) {
  const path = `/topics/${topicPath(topic)}/subscriptions/${encodeURIComponent(row.subscription)}/seek`;
  const where = (values) => (values.kind === "offset" ? values.offset : values.kind === "time" ? values.time && new Date(values.time).toISOString() : values.kind);
  return html`<${Act} label="Seek" title="Move the cursor" initial=${{ kind: "earliest", offset: "", time: "" }}
    act=${(values) => post(path, { start: startOf(values) })} done=${done}
    copy=${(values) => ({ cli: `sulina subscription seek ${topic} ${row.subscription} --to ${where(values)}`, verb: "POST", path, body: { start: startOf(values) } })}
    explain=${row.consumers ? "Consumers are connected: close them first, or the broker refuses." : undefined}
    fields=${(values, set) => html`<div class="filters">
      <${Field} label="To"><select value=${values.kind} onChange=${(event) => set({ kind: event.target.value })}>
        <option value="earliest">the oldest message</option><option value="latest">the end</option>
        <option value="offset">an offset</option><option value="time">a time</option></select><//>
      ${values.kind === "offset" && html`<${Field} label="Offset"><input type="number" min="0" required value=${values.offset} onInput=${(event) => set({ offset: event.target.value })} /><//>`}
      ${values.kind === "time" && html`<${Field} label="Time, in your zone"><input type="datetime-local" step="1" required value=${values.time} onInput=${(event) => set({ time: event.target.value })} /><//>`}
      </div><${Preview} topic=${topic} values=${values} row=${row} />`} />`;
}

function Policy({ topic, name, details, done }) {
  const path = `/topics/${topicPath(topic)}/subscriptions/${encodeURIComponent(name)}/policy`;
  const policy = details.failure_policy;
  const changed = (values) => Object.fromEntries(Object.entries(values).filter(([key, value]) => value !== policy[key] && value !== null && value !== "")
    .map(([key, value]) => [key, typeof policy[key] === "number" ? Number(value) : value]));
  const field = (values, set) => (key) => {
    const value = values[key] ?? "";
    const input = typeof policy[key] === "boolean"
      ? html`<select value=${String(value)} onChange=${(event) => set({ [key]: event.target.value === "true" })}><option>true</option><option>false</option></select>`
      : key === "poison" ? html`<select value=${value} onChange=${(event) => set({ [key]: event.target.value })}>${["block", "halt", "drop", "dead_letter"].map((each) => html`<option>${each}</option>`)}</select>`
        : key === "backoff" ? html`<select value=${value} onChange=${(event) => set({ [key]: event.target.value })}>${["exponential", "fixed"].map((each) => html`<option>${each}</option>`)}</select>`
          : html`<input type=${typeof policy[key] === "number" ? "number" : "text"} value=${value} onInput=${(event) => set({ [key]: event.target.value })} />`;
    return html`<${Field} key=${key} label=${words(key)}>${input}<//>`;
  };
  return html`<${Act} label="Change failure policy" initial=${policy} act=${(values) => patch(path, changed(values))} done=${done}
    copy=${(values) => ({
      cli: `sulina subscription policy ${topic} ${name}${Object.entries(changed(values)).map(([key, value]) => ` --${key.replaceAll("_", "-")} ${shellWord(value)}`).join("")}`,
      verb: "PATCH", path, body: changed(values) })}
    fields=${(values, set) => Object.keys(policy).map(field(values, set))} />`;
}

/** Why the subscription is in the list of those that need attention, if it is. */
function Concern({ topic, name }) {
  const found = useLoaded((signal) => get("/overview/attention", { limit: 1000 }, signal), [], 10000);
  const row = found.value?.find((each) => each.topic === topic && each.subscription === name);
  return row && html`<${Note} kind=${row.concern === "failing" ? "bad" : "warn"}><strong>${words(row.concern).replace(/^./, (letter) => letter.toUpperCase())}:</strong> ${row.detail}.<//>`;
}

function Details({ topic, name, done }) {
  const path = `/topics/${topicPath(topic)}/subscriptions/${encodeURIComponent(name)}`;
  const found = useLoaded((signal) => get(path, {}, signal), [path], 3000);
  const gone = () => {
    setQuery({ subscription: undefined });
    done();
  };
  return html`<${Card} title=${name} actions=${html`
      <${CopyAs} cli=${`sulina subscription describe ${topic} ${name}`} path=${path} />
      ${found.value && may("consume", topic) && html`<${Seek} topic=${topic} row=${{ ...found.value, consumers: found.value.consumers.length }} done=${found.reload} />`}
      ${found.value && may("topics", topic) && html`<${Policy} topic=${topic} name=${name} details=${found.value} done=${found.reload} />`}
      ${(may("consume", topic) || may("topics", topic)) && html`<${Act} label="Delete" title="Delete the subscription" kind="danger" typed=${name}
        explain="Its position is lost, and its consumers are disconnected. The messages stay." act=${() => remove(path)} done=${gone}
        copy=${() => ({ cli: `sulina subscription delete ${topic} ${name}`, verb: "DELETE", path })} />`}`}>
    <${Loaded} from=${found}>${(value) => html`
      ${value.stalled ? html`<${Note} kind="bad"><strong>Nothing is delivered:</strong> ${value.stalled}<//>` : html`<${Concern} topic=${topic} name=${name} />`}
      <${Facts} rows=${[
        ["Type", words(value.type)],
        ["Position", count(value.position)],
        ["Backlog", count(value.backlog)],
        ["In flight", count(value.consumers.reduce((sum, each) => sum + (each.in_flight ?? 0), 0))],
        ...Object.entries(value.counters).filter(([key]) => key !== "bytes_out").map(([key, number]) => [words(key).replace(/^./, (letter) => letter.toUpperCase()), count(number)]),
        ["Delayed frames", count(value.delayed_frames)],
        ["On failure", html`${words(value.failure_policy.poison)} after ${count(value.failure_policy.max_redelivery_count)} redeliveries`],
        value.failure_policy.dead_letter_topic && ["Dead letters", html`<a href=${topicLink(value.failure_policy.dead_letter_topic)}>${value.failure_policy.dead_letter_topic}</a>`],
        ["Ack timeout", value.failure_policy.ack_timeout_ms ? duration(value.failure_policy.ack_timeout_ms / 1000) : "none"],
      ]} />
      <h3>Connected consumers</h3>
      <${Table} label="Connected consumers" rows=${value.consumers} rowKey=${(row) => row.name}
        empty=${html`<${Empty} title="Nobody is connected">Start a consumer: <code>sulina consume ${topic} --subscription ${name}</code><//>`}
        columns=${[
          { label: "Name", cell: (row) => row.name },
          { label: "From", cell: (row) => row.address || "–" },
          { label: "State", cell: (row) => html`<${Pill} kind=${row.active ? "good" : ""}>${row.active ? "receives" : "stands by"}<//>` },
          { label: "In flight", number: true, cell: (row) => count(row.in_flight) },
          { label: "Credit", number: true, cell: (row) => count(Math.max(row.credit_records, 0)) },
          { label: "Sent", number: true, cell: (row) => count(row.sent) },
        ]} />`}<//>
  <//>`;
}

function Create({ topic, done }) {
  const path = `/topics/${topicPath(topic)}/subscriptions`;
  return html`<${Act} label="Create subscription" initial=${{ subscription: "", type: "exclusive", start: "latest" }}
    act=${(values) => call("POST", path, { body: values })} done=${done} copy=${(values) => ({ cli: `sulina subscription create ${topic} ${shellWord(values.subscription)} --type ${values.type} --from ${values.start}`, verb: "POST", path, body: values })}
    fields=${(values, set) => html`
      <${Field} label="Name"><input required value=${values.subscription} onInput=${(event) => set({ subscription: event.target.value })} /><//>
      <${Field} label="Type"><select value=${values.type} onChange=${(event) => set({ type: event.target.value })}>
        ${["exclusive", "shared", "failover", "key_shared"].map((each) => html`<option value=${each}>${words(each)}</option>`)}</select><//>
      <${Field} label="Start"><select value=${values.start} onChange=${(event) => set({ start: event.target.value })}>
        <option value="latest">with messages from now on</option><option value="earliest">with the oldest message</option></select><//>`} />`;
}

export function Subscriptions({ topic, details, query, reload }) {
  const logs = details.logs;
  const rows = logs.flatMap((log) => log.subscriptions);
  const chosen = rows.find((row) => row.subscription === query.subscription && (!query.of || row.topic === query.of));
  return html`<div class="stack">
    <${Card} title="Subscriptions" actions=${html`<${CopyAs} cli=${`sulina subscription list ${topic}`} path=${`/topics/${topicPath(logs[0].topic)}/subscriptions`} />
        ${!details.partitions && may("consume", topic) && html`<${Create} topic=${topic} done=${reload} />`}`}>
      <${Table} label="Subscriptions" rows=${rows} rowKey=${(row) => `${row.topic} ${row.subscription}`}
        empty=${html`<${Empty} title="Nobody has subscribed">A consumer creates its subscription: <code>sulina consume ${topic} --subscription billing --from earliest</code><//>`}
        columns=${[
          { label: "Subscription", cell: (row) => html`<a href=${topicLink(topic, { tab: "subscriptions", subscription: row.subscription, of: details.partitions ? row.topic : undefined })}>${row.subscription}</a>
            ${details.partitions > 0 && html`<br /><small class="muted">${row.topic}</small>`}` },
          { label: "Type", cell: (row) => words(row.type) },
          { label: "State", cell: (row) => (row.stalled ? html`<${Pill} kind="bad" title=${row.stalled}>stalled<//>`
            : row.consumers ? html`<${Pill} kind="good">consumed<//>` : html`<${Pill} kind=${row.backlog ? "warn" : ""}>no consumer<//>`) },
          { label: "Position", number: true, cell: (row) => count(row.position) },
          { label: "Lag", number: true, cell: (row) => html`<span title=${count(row.backlog)}>${compact(row.backlog)}</span>` },
          { label: "Consumers", number: true, cell: (row) => count(row.consumers) },
        ]} />
    <//>
    ${chosen && html`<${Details} key=${chosen.topic + chosen.subscription} topic=${chosen.topic} name=${chosen.subscription} done=${reload} />`}
  </div>`;
}
