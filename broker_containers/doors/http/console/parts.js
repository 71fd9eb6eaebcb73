// What pages are made of: cards, tables, times, dialogs, messages about errors and empty lists.

import { curl } from "./api.js";
import { ago, exactTime, localTime, utcTime } from "./format.js";
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

// ---- loading ----

const RETRY_MS = 5000;
const LONG_MS = 3000;

/**
 * Load something, again every `every` ms if given, and while the broker can't be reached. Keeps the last value while it loads again, so
 * that nothing jumps. Returns { value, problem, loading, reload }.
 */
export function useLoaded(load, inputs, every = 0) {
  const [state, setState] = useState({ value: null, problem: null, loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer;
    const run = async () => {
      let unreachable = false;
      try {
        const value = await load(abort.signal);
        if (!abort.signal.aborted) setState({ value, problem: null, loading: false });
      } catch (problem) {
        if (!abort.signal.aborted) setState((last) => ({ ...last, problem, loading: false }));
        unreachable = problem.status === 0;
      }
      if ((every || unreachable) && !abort.signal.aborted) run.later(every || RETRY_MS);
    };
    run.later = (ms) => {
      timer = setTimeout(() => (document.hidden ? run.later(ms) : run()), ms);
    };
    setState((last) => ({ ...last, loading: true }));
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...inputs, turn]);
  const reload = useCallback(() => setTurn((last) => last + 1), []);
  return { ...state, reload };
}

/** Shows what was loaded with `children(value)`, or why it could not be. */
export function Loaded({ from, children }) {
  if (from.value !== null) {
    return html`${from.problem && html`<${Trouble} problem=${from.problem} retry=${from.reload} />`}
      ${children(from.value)}`;
  }
  if (from.problem) return html`<${Trouble} problem=${from.problem} retry=${from.reload} />`;
  return html`<${Loading} />`;
}

/** Says so when it takes long: what a broker asks of others may be missing. */
export function Loading() {
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="loading" role="status">${long ? "Still loading: the broker waits for another part of the cluster…" : "Loading…"}</div>`;
}

// ---- messages ----

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export function Trouble({ problem, retry }) {
  if (problem.name === "AbortError") return null;
  return html`<div class="note bad" role="alert">
    <strong>${problem.title || "It did not work"}</strong>
    <p>${sentence(problem.message)}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

export function Note({ kind = "info", children }) {
  return html`<div class=${`note ${kind}`} role="status">${children}</div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong><div>${children}</div></div>`;
}

// ---- pieces ----

export function Page({ title, back, children, actions, about }) {
  useEffect(() => {
    document.title = `${title} · Sulina`;
  }, [title]);
  return html`<div class="page">
    <header class="page-head">
      <div class="page-title">
        ${back && html`<a class="back" href=${back[0]}>${back[1]}</a>`}
        <h1>${title}</h1>
        ${about && html`<p class="muted">${about}</p>`}
      </div>
      <div class="actions">${actions}</div>
    </header>
    ${children}
  </div>`;
}

export function Card({ title, actions, children, wide }) {
  return html`<section class=${wide ? "card wide" : "card"}>
    ${(title || actions) && html`<header><h2>${title}</h2><div class="actions">${actions}</div></header>`}
    ${children}
  </section>`;
}

export function Time({ us, relative, exact }) {
  if (!us) return html`<span class="muted">–</span>`;
  return html`<time datetime=${new Date(us / 1000).toISOString()} title=${utcTime(us)}>
    ${relative ? ago(us) : exact ? exactTime(us) : localTime(us)}
  </time>`;
}

export function Pill({ kind = "", children, title }) {
  return html`<span class=${`pill ${kind}`} title=${title}>${children}</span>`;
}

export function Stat({ label, value, detail, kind = "", children }) {
  return html`<div class=${`stat ${kind}`}>
    <div class="stat-label">${label}</div>
    <div class="stat-value">${value}</div>
    <div class="stat-detail">${detail ?? "\u00a0"}</div>
    ${children}
  </div>`;
}

/** Name and value pairs; `line` shows them next to each other instead of in columns. */
export function Facts({ rows, line }) {
  return html`<dl class=${line ? "facts line" : "facts"}>
    ${rows.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

export function Meter({ share, label, kind = "" }) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return html`<div class=${`meter ${kind}`} role="img" aria-label=${label} title=${label}>
    <div style=${{ width }}></div>
  </div>`;
}

/** Columns are { label, cell(row), number, className, sort, title }; `sorted` is { by, descending, change }. */
export function Table({ label, columns, rows, sorted, rowKey, empty, onRow }) {
  if (!rows.length && empty) return empty;
  const head = (column) => {
    const kind = column.number ? "number" : "";
    if (!column.label) return html`<td></td>`;
    if (!sorted || !column.sort) return html`<th scope="col" class=${kind} title=${column.title}>${column.label}</th>`;
    const active = sorted.by === column.sort;
    const order = active ? (sorted.descending ? "descending" : "ascending") : "none";
    const change = () => sorted.change(column.sort, active ? !sorted.descending : Boolean(column.number));
    return html`<th scope="col" class=${kind} aria-sort=${order}>
      <button type="button" class="sort" onClick=${change}>
        ${column.label}<span aria-hidden="true">${active ? (sorted.descending ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>`;
  };
  return html`<div class="table" role="region" aria-label=${label} tabindex="0">
    <table>
      <thead><tr>${columns.map(head)}</tr></thead>
      <tbody>${rows.map((row, index) => html`<tr key=${rowKey ? rowKey(row) : index}
          class=${onRow ? "clickable" : ""} onClick=${onRow && (() => onRow(row))}>
        ${columns.map((column) => html`<td class=${column.className ?? (column.number ? "number" : "")} data-label=${column.label}>${column.cell(row)}</td>`)}
      </tr>`)}</tbody>
    </table>
  </div>`;
}

export function Tabs({ tabs, now, href }) {
  return html`<nav class="tabs" aria-label="Parts of this page">
    ${tabs.map(([key, label]) => html`<a key=${key} href=${href(key)} aria-current=${key === now ? "page" : undefined}>${label}</a>`)}
  </nav>`;
}

export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

// ---- dialogs ----

export function Dialog({ title, close, children }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.open && dialog.close();
  }, []);
  const backdrop = (event) => event.target === element.current && close();
  return html`<dialog ref=${element} aria-label=${title} onClose=${close} onClick=${backdrop}>
    <div class="dialog">
      <header><h2>${title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick=${close}>✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * A button that opens a form in a dialog and runs `act(values)`. With `typed`, the name has to be
 * typed first. `fields(values, set)` draws the form.
 */
export function Act({ label, title, kind = "", typed, initial = {}, fields, act, done, explain, copy, small }) {
  const [open, setOpen] = useState(false);
  const [values, setValues] = useState(initial);
  const [name, setName] = useState("");
  const [state, setState] = useState({ busy: false, problem: null, result: null });
  const set = (changes) => setValues((last) => ({ ...last, ...changes }));
  const start = () => {
    setValues(initial);
    setName("");
    setState({ busy: false, problem: null, result: null });
    setOpen(true);
  };
  const run = async (event) => {
    event.preventDefault();
    setState({ busy: true, problem: null, result: null });
    try {
      const result = await act(values);
      if (result !== undefined && result !== null && result.show) {
        setState({ busy: false, problem: null, result: result.show });
      } else setOpen(false);
      if (done) done(result);
    } catch (problem) {
      setState({ busy: false, problem, result: null });
    }
  };
  const ready = !typed || name === typed;
  return html`<button type="button" class=${`${kind} ${small ? "small" : ""}`} onClick=${start}>${label}</button>
    ${open && html`<${Dialog} title=${title ?? label} close=${() => setOpen(false)}>
      <form onSubmit=${run}>
        ${explain && html`<p>${explain}</p>`}
        ${!state.result && fields && fields(values, set)}
        ${state.result && html`<div class="note good" role="status">${state.result}</div>`}
        ${!state.result && typed && html`<${Field} label=${`Type ${typed} to confirm`}>
          <input value=${name} autocomplete="off" spellcheck=${false} onInput=${(event) => setName(event.target.value)} />
        <//>`}
        ${state.problem && html`<${Trouble} problem=${state.problem} />`}
        <footer>
          ${copy && html`<${CopyAs} ...${copy(values)} />`}
          <span class="grow"></span>
          <button type="button" onClick=${() => setOpen(false)}>${state.result ? "Close" : "Cancel"}</button>
          ${!state.result && html`<button type="submit" class=${`primary ${kind}`} disabled=${!ready || state.busy}>
            ${state.busy ? "Working…" : (title ?? label)}</button>`}
        </footer>
      </form>
    <//>`}`;
}

// ---- copying ----

async function toClipboard(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return undefined;
}

export function CopyButton({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    await toClipboard(text);
    setCopied(true);
  };
  return html`<button type="button" class="small" onClick=${copy}>
    <span aria-live="polite">${copied ? "Copied" : label}</span></button>`;
}

/** "Copy as": the same as a sulina command and for curl. */
export function CopyAs({ cli, path, ...rest }) {
  const commands = [];
  if (cli) commands.push(["sulina", cli]);
  if (path) commands.push(["curl", curl({ path, ...rest })]);
  const element = useRef(null);
  useEffect(() => {
    const outside = (event) => {
      if (element.current?.open && !element.current.contains(event.target)) element.current.open = false;
    };
    document.addEventListener("click", outside);
    return () => document.removeEventListener("click", outside);
  }, []);
  const escape = (event) => {
    if (event.key === "Escape" && element.current.open) {
      event.preventDefault();
      element.current.open = false;
    }
  };
  return html`<details class="copy-as" ref=${element} onKeyDown=${escape}>
    <summary class="button small">Copy as…</summary>
    <div class="popover">
      ${commands.map(([name, text]) => html`<div key=${name} class="command">
        <span>${name}</span><code>${text}</code><${CopyButton} text=${text} />
      </div>`)}
    </div>
  </details>`;
}

export function Json({ value }) {
  return html`<pre class="json" tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
}
