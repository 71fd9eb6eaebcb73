// Messages of a topic: by offset, time, key or text, newest first or as they arrive; publish one.

import { call, get, shellWord, topicPath } from "../api.js";
import { bytes, bytesOf, count, hexDump } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Act, Card, CopyAs, CopyButton, Dialog, Empty, Facts, Field, Note, Table, Time, Trouble } from "../parts.js";
import { may } from "../rights.js";
import { setQuery } from "../router.js";
import { each, Merge } from "./message_merge.js";

const PAGE = 50;
const MOST_SHOWN = 500;
const TAIL_MS = 1000;

const text = (message, name) => {
  if (message[name] != null) return message[name];
  const data = bytesOf(message, name);
  return data ? `${bytes(data.length)} of binary data` : "";
};

function pretty(message) {
  if (message.decoded != null) return ["Decoded by its schema", message.decoded];
  if (message.payload == null) return null;
  try {
    return ["JSON", JSON.stringify(JSON.parse(message.payload), null, 2)];
  } catch {
    return ["Text", message.payload];
  }
}

function Message({ message, topic, close }) {
  const shown = pretty(message);
  const [hex, setHex] = useState(!shown);
  const data = bytesOf(message, "payload") ?? new Uint8Array();
  const attributes = Object.entries(message.attributes);
  const body = hex ? hexDump(data) : shown[1];
  return html`<${Dialog} title=${`Message ${count(message.offset)}`} close=${close}>
    <${Facts} rows=${[
      ["Offset", count(message.offset)],
      ["Published", html`<${Time} us=${message.time_us} exact />`],
      ["Key", message.key == null && message.key_base64 == null ? html`<span class="muted">none</span>` : html`<code>${text(message, "key")}</code>`],
      ["Size", bytes(message.size)],
      ["Producer", message.producer || "–"],
      ["Sequence", count(message.sequence)],
      message.schema_id && ["Schema", `id ${message.schema_id}, version ${message.schema_version}`],
    ]} />
    ${message.undecoded && html`<${Note} kind="warn">It can't be decoded: ${message.undecoded}<//>`}
    <div class="stack">
      <div class="actions">
        ${shown && html`<button type="button" class="small" aria-pressed=${!hex} onClick=${() => setHex(false)}>${shown[0]}</button>`}
        <button type="button" class="small" aria-pressed=${hex} onClick=${() => setHex(true)}>Bytes</button>
        <span class="grow"></span><${CopyButton} text=${body} label="Copy payload" />
      </div>
      <pre class=${hex ? "hex" : ""} tabindex="0">${body}</pre>
      ${data.length < message.size && message.decoded == null && html`<p class="muted small">The first ${bytes(data.length)} of ${bytes(message.size)}.</p>`}
    </div>
    ${attributes.length > 0 && html`<h3>Attributes</h3><${Table} label="Attributes" rows=${attributes} columns=${[
      { label: "Name", cell: ([name]) => name }, { label: "Value", cell: ([, value]) => html`<code>${value}</code>` }]} />`}
    <footer><${CopyAs} cli=${`sulina peek ${topic} --from ${message.offset} --count 1`} path=${`/topics/${topicPath(topic)}/messages`} query=${{ start: message.offset, limit: 1 }} /></footer>
  <//>`;
}

function headersOf(values) {
  const headers = {};
  if (values.key) headers["Sulina-Key"] = values.key;
  if (values.name) headers[`Sulina-Attribute-${values.name}`] = values.value;
  return headers;
}

function Publish({ topic, done }) {
  return html`<${Act} label="Publish" title="Publish a message" initial=${{ payload: "", key: "", name: "", value: "" }}
    act=${async (values) => {
      const at = await call("POST", `/topics/${topicPath(topic)}/messages`, { raw: values.payload, headers: headersOf(values) });
      return { show: `Published at offset ${count(at.offset)} of ${at.topic}.` };
    }} done=${done}
    copy=${(values) => ({
      cli: `sulina produce ${topic} ${values.key ? `--key ${shellWord(values.key)} ` : ""}${values.name ? `--attribute ${shellWord(`${values.name}=${values.value}`)} ` : ""}-- ${shellWord(values.payload)}`,
      verb: "POST", path: `/topics/${topicPath(topic)}/messages`, raw: values.payload, headers: headersOf(values) })}
    fields=${(values, set) => html`
      <${Field} label="Payload"><textarea required value=${values.payload} onInput=${(event) => set({ payload: event.target.value })}></textarea><//>
      <${Field} label="Key" hint="Optional"><input value=${values.key} onInput=${(event) => set({ key: event.target.value })} /><//>
      <div class="filters">
        <${Field} label="Attribute" hint="Optional"><input value=${values.name} pattern="[A-Za-z0-9_-]*" onInput=${(event) => set({ name: event.target.value })} /><//>
        <${Field} label="Value"><input value=${values.value} onInput=${(event) => set({ value: event.target.value })} /><//>
      </div>`} />`;
}

function Replay({ topic }) {
  const path = `/topics/${topicPath(topic)}/replay`;
  return html`<${Act} label="Replay dead letters" title="Replay dead letters" initial=${{ from: "", limit: 100 }}
    explain="Messages are published again to the topics that they came from, with the same payload, key and attributes. They stay here: note the offset where to continue."
    act=${async (values) => {
      const body = { limit: Number(values.limit) };
      if (values.from !== "") body.start = { offset: Number(values.from) };
      const done = await call("POST", path, { body });
      const where = Object.entries(done.topics).map(([name, number]) => `${count(number)} to ${name}`).join(", ");
      return { show: `Replayed ${count(done.replayed)} messages${where ? ` (${where})` : ""}; ${count(done.left_out)} name no origin. ${done.at_end ? "That was all." : `Continue at offset ${count(done.next_offset)}.`}` };
    }}
    copy=${(values) => ({
      cli: `sulina topic replay ${topic}${values.from === "" ? "" : ` --from ${values.from}`} --count ${values.limit || 100}`,
      verb: "POST", path, body: { limit: Number(values.limit), ...(values.from === "" ? {} : { start: { offset: Number(values.from) } }) } })}
    fields=${(values, set) => html`<div class="filters">
      <${Field} label="From offset" hint="Empty: the oldest"><input type="number" min="0" value=${values.from} onInput=${(event) => set({ from: event.target.value })} /><//>
      <${Field} label="At most"><input type="number" min="1" max="1000" required value=${values.limit} onInput=${(event) => set({ limit: event.target.value })} /><//></div>`} />`;
}

/** What the form asks for, as parameters of the search. */
function asked(query) {
  const found = { key: query.key, text: query.text, limit: PAGE };
  if (query.time) found.start = JSON.stringify({ time_us: new Date(query.time).getTime() * 1000 });
  else if (query.offset) found.start = query.offset;
  if (!query.oldest && !query.offset && !query.time) found.newest_first = true;
  return found;
}

export function Messages({ topic, details, query }) {
  const partitions = details.partitions ? details.logs.map((log) => log.topic) : [];
  const chosen = partitions.includes(query.partition) ? query.partition : null;
  const source = chosen ?? topic;
  const sources = chosen || !partitions.length ? [source] : partitions;
  const several = sources.length > 1;
  const mayRead = may("consume", topic) || may("consume", source);
  const [form, setForm] = useState(query);
  const [state, setState] = useState({ messages: [], atEnd: false, scanned: 0, busy: true, problem: null });
  const [open, setOpen] = useState(null);
  const [tail, setTail] = useState(false);
  const running = useRef(null);
  const pathOf = (name) => `/topics/${topicPath(name)}/message-search`;
  const parameters = asked(several ? { ...query, offset: undefined } : query);

  const search = async (more) => {
    running.current?.abort.abort();
    const abort = new AbortController();
    const ask = (name, next) => {
      const page = { ...parameters };
      if (next !== null) page[parameters.newest_first ? "before" : "start"] = next;
      return get(pathOf(name), page, running.current.abort.signal);
    };
    const merge = (more && running.current?.merge) || new Merge(sources, ask, Boolean(parameters.newest_first));
    running.current = { abort, merge };
    const show = (messages, busy) => {
      if (abort.signal.aborted) return;
      setState({ messages: messages.slice(-MOST_SHOWN), atEnd: merge.atEnd, scanned: merge.scanned, busy, problem: null });
    };
    setState((last) => ({ ...last, busy: true, problem: null }));
    try {
      show(await merge.more(PAGE, (messages) => show(messages, true)), false);
    } catch (problem) {
      if (!abort.signal.aborted) setState((last) => ({ ...last, busy: false, problem }));
      abort.abort();
    }
  };

  useEffect(() => {
    setTail(false);
    if (mayRead) search(false);
    return () => running.current?.abort.abort();
  }, [source, query.key, query.text, query.offset, query.time, query.oldest]);

  useEffect(() => {
    if (!tail) return undefined;
    const abort = new AbortController();
    const at = new Map();
    let timer;
    const newer = async (name) => {
      const path = pathOf(name);
      if (!at.has(name)) {  // from the end that the search saw, unless that is long ago
        const { end_offset: end } = await get(path, { limit: 1, newest_first: true }, abort.signal);
        at.set(name, Math.max(running.current.merge.end.get(name) ?? end, end - PAGE));
      }
      const found = await get(path, { ...parameters, newest_first: undefined, start: at.get(name), limit: 200 }, abort.signal);
      at.set(name, found.next_offset);
      if (found.messages.length) {
        const messages = found.messages.map((message) => ({ ...message, topic: name })).toReversed();
        setState((last) => ({ ...last, messages: [...messages, ...last.messages].slice(0, MOST_SHOWN) }));
      }
    };
    const step = async () => {
      try {
        await each(sources, newer);
      } catch (problem) {
        if (abort.signal.aborted) return;
        setState((last) => ({ ...last, problem }));
      }
      timer = setTimeout(step, TAIL_MS);
    };
    step();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [tail]);

  if (!mayRead) {
    return html`<${Card} title="Messages" actions=${may("produce", topic) && html`<${Publish} topic=${topic} />`}>
      <${Note}>You may not read messages of this topic: that needs the right <code>consume:${topic}</code>.<//><//>`;
  }
  const set = (changes) => setForm((last) => ({ ...last, ...changes }));
  const submit = (event) => {
    event.preventDefault();
    setQuery({ key: form.key, text: form.text, offset: form.offset, time: form.time, oldest: form.oldest });
  };
  const words = ["sulina peek", source, `--count ${PAGE}`];
  if (query.time) words.push(`--from ${new Date(query.time).toISOString()}`);
  else if (parameters.start) words.push(`--from ${parameters.start}`);
  else if (parameters.newest_first) words[2] = `--last ${PAGE}`;
  if (query.key) words.push(`--key ${shellWord(query.key)}`);
  if (query.text) words.push(`--text ${shellWord(query.text)}`);
  const cli = words.join(" ");
  return html`<${Card} title="Messages" actions=${html`
      <${CopyAs} cli=${cli} path=${several ? undefined : pathOf(source)} query=${parameters} />
      ${!several && state.messages.some((row) => row.attributes["x-original-topic"]) && html`<${Replay} topic=${source} />`}
      <button type="button" aria-pressed=${tail} onClick=${() => setTail(!tail)}>${tail ? "Stop the live tail" : "Live tail"}</button>
      ${may("produce", topic) && html`<${Publish} topic=${topic} done=${() => !tail && search(false)} />`}`}>
    <form class="filters" onSubmit=${submit}>
      ${partitions.length > 0 && html`<${Field} label="Partition"><select value=${chosen ?? ""} onChange=${(event) => setQuery({ partition: event.target.value, offset: "" })}>
        <option value="">all</option>
        ${partitions.map((each) => html`<option>${each}</option>`)}</select><//>`}
      <${Field} label="Key"><input type="search" value=${form.key ?? ""} onInput=${(event) => set({ key: event.target.value })} /><//>
      <${Field} label="Text"><input type="search" value=${form.text ?? ""} onInput=${(event) => set({ text: event.target.value })} /><//>
      ${!several && html`<${Field} label="From offset"><input type="number" min="0" value=${form.offset ?? ""} onInput=${(event) => set({ offset: event.target.value })} /><//>`}
      <${Field} label="From time"><input type="datetime-local" step="1" value=${form.time ?? ""} onInput=${(event) => set({ time: event.target.value })} /><//>
      <${Field} label="Order"><select value=${form.oldest ?? ""} onChange=${(event) => set({ oldest: event.target.value })}>
        <option value="">newest first</option><option value="true">oldest first</option></select><//>
      <button type="submit" class="primary">Search</button>
    </form>
    ${tail && html`<p class="muted" role="status">New messages appear on top as they arrive; the last ${count(MOST_SHOWN)} are kept here.</p>`}
    ${state.problem && html`<${Trouble} problem=${state.problem} retry=${() => search(false)} />`}
    <${Table} label="Messages" rows=${state.messages} rowKey=${(row) => `${row.topic}:${row.offset}`} onRow=${setOpen}
      empty=${state.busy ? html`<div class="loading" role="status">Searching…</div>`
        : query.key || query.text
          ? html`<${Empty} title="No message matches">${count(state.scanned)} messages were looked at. The key must be the whole key, the text any part of payload, key or attributes.<//>`
          : html`<${Empty} title="There are no messages here">Publish one with the button above, or <code>sulina produce ${topic} "hello"</code><//>`}
      columns=${[
        { label: "Offset", number: true, cell: (row) => html`<button type="button" class="plain small" onClick=${() => setOpen(row)}>${count(row.offset)}</button>` },
        several && { label: "Partition", number: true, cell: (row) => row.topic.match(/\d+$/)[0] },
        { label: "Published", cell: (row) => html`<${Time} us=${row.time_us} exact />` },
        { label: "Key", cell: (row) => html`<code class="short" title=${text(row, "key")}>${text(row, "key")}</code>` },
        { label: "Payload", className: "payload-cell", cell: (row) => html`<div class="payload">${row.decoded ?? text(row, "payload")}</div>` },
        { label: "Size", number: true, cell: (row) => bytes(row.size) },
      ].filter(Boolean)} />
    ${!tail && state.messages.length > 0 && html`<div class="pages">
      <span class="muted" role="status">${count(state.messages.length)} shown${query.key || query.text ? `, ${count(state.scanned)} looked at` : ""}${state.busy ? "; searching…" : state.atEnd ? "; that is all" : ""}</span>
      <span class="actions">
        ${state.busy && html`<button type="button" onClick=${() => { running.current?.abort.abort(); setState((last) => ({ ...last, busy: false })); }}>Stop</button>`}
        <button type="button" disabled=${state.atEnd || state.busy} onClick=${() => search(true)}>More</button></span></div>`}
    ${open && html`<${Message} message=${open} topic=${open.topic} close=${() => setOpen(null)} />`}
  <//>`;
}
