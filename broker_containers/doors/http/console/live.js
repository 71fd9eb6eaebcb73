// The overview as the broker sends it, for every page that shows it: one stream per tab.

import { authorization, get, onSignedOut, read } from "./api.js";
import { useEffect, useState } from "./html.js";

const MOST = 720;
/** Brokers send a sample every five seconds: one that is silent for so long hangs, or is cut off. */
const SILENT_MS = 20000;
const state = { status: "connecting", overview: null, history: [], problem: null };
const listeners = new Set();
let running = false;

function tell(changes) {
  Object.assign(state, changes);
  for (const listener of listeners) listener({ ...state });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function add(overview) {
  const last = state.history.at(-1);
  const isNew = !last || overview.total.wall_us > last.wall_us;
  const history = isNew ? [...state.history, overview.total].slice(-MOST) : state.history;
  tell({ status: "live", overview, history, problem: null });
}

async function follow() {
  const silence = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENT_MS);
  };
  try {
    await stream(silence.signal, heard);
  } finally {
    clearTimeout(timer);
  }
}

async function stream(signal, heard) {
  heard();
  const answer = await fetch("/console/live", { headers: authorization(), signal });
  if (!answer.ok) await read(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    heard();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) add(JSON.parse(data.slice(6)));
    }
  }
}

async function run() {
  let wait = 1000;
  while (running) {
    try {
      if (!state.history.length) state.history = await get("/overview/history");
      await follow();
      wait = 1000;
    } catch (problem) {
      if (problem.status === 403) {
        tell({ status: "denied", problem });
        return;
      }
      if (problem.status === 401) return;
      tell({ status: "lost", problem });
      await pause(wait);
      wait = Math.min(wait * 2, 10000);
    }
  }
}

/** Without the right to see the cluster there is nothing to follow. */
export function startLive(allowed) {
  if (running) return;
  if (!allowed) {
    tell({ status: "denied" });
    return;
  }
  running = true;
  tell({ status: "connecting", problem: null });
  run().finally(() => {
    running = false;
  });
}

onSignedOut(() => {
  running = false;
  state.history = [];
  state.overview = null;
});

/** The newest state; the page is drawn again with each one. */
export function useLive() {
  const [now, setNow] = useState({ ...state });
  useEffect(() => {
    listeners.add(setNow);
    setNow({ ...state });
    return () => listeners.delete(setNow);
  }, []);
  return now;
}
