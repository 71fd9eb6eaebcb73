// Erasing messages of a topic for good: by key or by offsets, with a preview; how far it is.

import { get, post, shellWord, topicPath } from "../api.js";
import { count } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Act, Card, CopyAs, CopyButton, Empty, Field, Loaded, Meter, Pill, Table, Time, Trouble, useLoaded } from "../parts.js";
import { may } from "../rights.js";

const MOST_CALLS = 60;
const KINDS = { done: "good", failed: "bad", cancelled: "warn" };
const ended = (row) => row.state in KINDS;
const lines = (text) => [...new Set(text.split("\n").filter(Boolean))];

/** Brokers get and record only the digest. Browsers have SHA-256 for HTTPS and for localhost. */
async function digestOf(key) {
  if (!crypto.subtle) throw new Error("the browser computes digests only over HTTPS or on localhost: open the console there, or use the sulina command");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
  return [...new Uint8Array(digest)].map((each) => each.toString(16).padStart(2, "0")).join("");
}

/** Counts the messages of the keys, with a bounded number of calls; `tell` gets what was found. */
async function countKeys(logs, keys, tell, signal) {
  let calls = 0;
  const found = { messages: 0, scanned: 0, whole: true, done: false };
  for (const log of logs) {
    for (const key of keys) {
      let start = log.start_offset;
      for (let more = true; more;) {
        if (calls++ >= MOST_CALLS) return tell({ ...found, whole: false, done: true });
        const page = await get(`/topics/${topicPath(log.topic)}/message-search`, { key, start, limit: 1000 }, signal);
        found.messages += page.messages.length;
        found.scanned += page.scanned;
        start = page.next_offset;
        more = !page.at_end;
        tell({ ...found });
      }
    }
  }
  return tell({ ...found, done: true });
}

const PAUSE_MS = 300;

function Preview({ topic, logs, values }) {
  const [state, setState] = useState(null);
  const keys = lines(values.keys);
  const readable = may("consume", topic);
  useEffect(() => {
    setState(null);
    if (values.by !== "keys" || !keys.length || !readable) return undefined;
    const abort = new AbortController();
    const tell = (found) => !abort.signal.aborted && setState({ found });
    const timer = setTimeout(() => countKeys(logs, keys, tell, abort.signal).catch(
      (problem) => !abort.signal.aborted && setState({ problem })), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [values.by, values.keys]);
  if (values.by === "offsets") {
    const log = logs.find((each) => each.topic === values.part);
    const first = Math.max(Number(values.first), log.start_offset);
    const last = Math.min(Number(values.last), log.end_offset - 1);
    if (values.first === "" || values.last === "") return html`<div class="note">Choose offsets from ${count(log.start_offset)} to ${count(Math.max(log.end_offset - 1, 0))}.</div>`;
    return html`<div class="note" role="status"><strong>${count(Math.max(last - first + 1, 0))} messages are erased</strong>
      <p>${last < first ? "The topic has no message at these offsets." : `Those at offsets ${count(first)} to ${count(last)}.`}</p></div>`;
  }
  if (!readable) return html`<div class="note">You may not read messages of this topic, so they can't be counted.</div>`;
  if (!keys.length) return html`<div class="note">Type a key to see how many messages it has.</div>`;
  if (state?.problem) return html`<${Trouble} problem=${state.problem} />`;
  if (!state) return html`<div class="note" role="status">Counting…</div>`;
  const { messages, scanned, whole, done } = state.found;
  return html`<div class="note" role="status">
    <strong>${whole ? "" : "At least "}${count(messages)} messages are erased${done ? "" : ", so far"}</strong>
    <p>${count(scanned)} were looked at${done ? "" : "; counting…"}${whole ? "" : "; the topic has more, which are erased too if their key matches"}.</p></div>`;
}

const requestOf = async (values) => (values.by === "keys"
  ? { key_digests: await Promise.all(lines(values.keys).map(digestOf)) }
  : { offsets: [{ first: Number(values.first), last: Number(values.last) }] });

function Erase({ topic, logs, done }) {
  const parts = (values) => (values.by === "keys" ? logs.map((each) => each.topic) : [values.part]);
  const copy = (values) => (values.by === "keys"
    ? { cli: ["sulina topic erase", topic, ...lines(values.keys).map((key) => `--key ${shellWord(key)}`)].join(" ") }
    : { verb: "POST", path: `/topics/${topicPath(values.part)}/erasures`, body: { offsets: [{ first: Number(values.first), last: Number(values.last) }] } });
  const input = (values, set, name, label) => html`<${Field} label=${label}><input type="number" min="0" required value=${values[name]}
    onInput=${(event) => set({ [name]: event.target.value })} /><//>`;
  return html`<${Act} label="Erase messages" title="Erase for good" kind="danger" typed=${topic} done=${done} copy=${copy}
    initial=${{ by: "keys", keys: "", part: logs[0].topic, first: "", last: "" }}
    explain="In place of each message stays an empty one without key; offsets do not change. Objects that had such messages are replaced. This can't be undone."
    act=${async (values) => {
      const body = await requestOf(values);
      for (const part of parts(values)) await post(`/topics/${topicPath(part)}/erasures`, body);
      return { show: "The request is stored, and brokers finish it whatever happens; this page shows how far it is." };
    }}
    fields=${(values, set) => html`
      <${Field} label="Which"><select value=${values.by} onChange=${(event) => set({ by: event.target.value })}>
        <option value="keys">messages with a key</option><option value="offsets">messages at offsets</option></select><//>
      ${values.by === "keys"
        ? html`<${Field} label="Keys" hint="One per line, each the whole key. Only their SHA-256 digests are sent and recorded."><textarea required rows="3" value=${values.keys} onInput=${(event) => set({ keys: event.target.value })}></textarea><//>`
        : html`<div class="filters">
          ${logs.length > 1 && html`<${Field} label="Partition"><select value=${values.part} onChange=${(event) => set({ part: event.target.value })}>${logs.map((each) => html`<option>${each.topic}</option>`)}</select><//>`}
          ${input(values, set, "first", "First offset")}${input(values, set, "last", "Last offset")}</div>`}
      <${Preview} topic=${topic} logs=${logs} values=${values} />`} />`;
}

function Cancel({ row, done }) {
  const path = `/topics/${topicPath(row.topic)}/erasures/${row.id}/cancel`;
  return html`<${Act} label="Cancel" small title=${`Cancel erasure ${row.id}`} explain="What is erased stays erased." act=${() => post(path)} done=${done}
    copy=${() => ({ cli: `sulina topic erase ${row.topic} --cancel ${row.id}`, verb: "POST", path, body: {} })} />`;
}

const what = (row) => [row.key_digests.length && `${count(row.key_digests.length)} keys`,
  row.offsets.length && `${count(row.offsets.reduce((sum, each) => sum + each.last - each.first + 1, 0))} offsets`].filter(Boolean).join(", at ");

export function Erasures({ topic, details }) {
  const logs = details.logs;
  const found = useLoaded(async (signal) => {
    const each = await Promise.all(logs.map((log) => get(`/topics/${topicPath(log.topic)}/erasures`, {}, signal)));
    return each.flat().toSorted((one, other) => other.began_us - one.began_us);
  }, [topic], 3000);
  if (details.delivery !== "reliable") {
    return html`<${Card} title="Erasures"><p class="muted">A non-reliable topic stores nothing, so there is nothing to erase.</p><//>`;
  }
  const manage = may("topics", topic);
  const where = `sulina topic erase ${topic} --where "customer = 'Ann'" --dry-run`;
  return html`<${Card} title="Erasures" actions=${html`<${CopyAs} cli=${`sulina topic erase ${topic} --status`} path=${`/topics/${topicPath(logs[0].topic)}/erasures`} />
      ${manage && html`<${Erase} topic=${topic} logs=${logs} done=${found.reload} />`}`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="Erasures" rows=${rows} rowKey=${(row) => `${row.topic} ${row.id}`}
      empty=${html`<${Empty} title="Nothing was erased">Open requests and the latest that ended appear here.<//>`}
      columns=${[
        details.partitions > 0 && { label: "Partition", cell: (row) => row.topic },
        { label: "Id", number: true, cell: (row) => row.id },
        { label: "What", cell: what },
        { label: "State", cell: (row) => html`<${Pill} kind=${KINDS[row.state] ?? "accent"}>${row.state}<//>
          ${!ended(row) && row.until_offset > 0 && html`<${Meter} share=${row.searched_offset / row.until_offset} label=${`${count(row.searched_offset)} of ${count(row.until_offset)} offsets`} />`}` },
        { label: "Requested", cell: (row) => html`<${Time} us=${row.began_us} />` },
        { label: "Erased", number: true, cell: (row) => count(row.erased) },
        { label: "Objects replaced", number: true, cell: (row) => count(row.objects.length) },
        { label: "Old data is deleted", cell: (row) => html`<${Time} us=${row.gone_us} />` },
        { label: "Problem", cell: (row) => row.problem || "–" },
        manage && { label: "", cell: (row) => !ended(row) && html`<${Cancel} row=${row} done=${found.reload} />` },
      ].filter(Boolean)} />`}<//>
    <h3>By a condition</h3>
    <p class="muted">The command evaluates a condition in SQL over keys, attributes and the fields of the schema; with --dry-run it only counts.</p>
    <div class="command"><span>sulina</span><code>${where}</code><${CopyButton} text=${where} /></div>
  <//>`;
}
