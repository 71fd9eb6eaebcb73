// The console: signs in, draws the frame, and shows the page that the address names.

import { about, onSignedOut, session } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { startLive, useLive } from "./live.js";
import { Note, Page, Trouble } from "./parts.js";
import { loadRights, may, whoami } from "./rights.js";
import { link, useRoute } from "./router.js";
import { SignIn, finishSignIn } from "./signin.js";
import { PAGES } from "./pages/index.js";

const THEMES = ["auto", "light", "dark"];
const THEME = "sulina.theme";

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
}

function ThemeButton() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "auto");
  useEffect(() => applyTheme(theme), [theme]);
  const next = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  return html`<button type="button" class="plain" onClick=${next} title="Change between light, dark and the system's colours">
    Theme: ${theme}</button>`;
}

const STATUS = {
  live: ["good", "Live"],
  connecting: ["", "Connecting…"],
  lost: ["bad", "No connection; trying again"],
  denied: ["", "Updates every few seconds"],
};

function LiveStatus() {
  const { status } = useLive();
  const [kind, text] = STATUS[status];
  return html`<span class=${`live ${kind}`} role="status"><i aria-hidden="true"></i>${text}</span>`;
}

/** On every page, as most of them need it. */
function WithoutMetadata({ overview, broker }) {
  const part = overview?.brokers.find((each) => each.broker === broker)?.parts.metadata;
  if (!part || part.ok) return null;
  return html`<${Note} kind="bad"><strong>The metadata store does not answer ${broker} (${part.detail}).</strong>${" "}
    Topics are served; nothing can be created, changed or moved, and what needs it is missing here. Check that etcd runs, and the network to it.<//>`;
}

function Icon({ path }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${path} /></svg>`;
}

function Shell({ info, signOut }) {
  const { path, query } = useRoute();
  const { overview } = useLive();
  const [open, setOpen] = useState(false);
  const name = path[0] ?? "overview";
  const page = PAGES.find((each) => each.name === name);
  const shown = PAGES.filter((each) => !each.hidden && (!each.needs || each.needs.some((action) => may(action))));
  useEffect(() => setOpen(false), [location.hash]);
  useEffect(() => {
    const key = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
      event.preventDefault();
      const search = document.querySelector("main input[type=search]");
      if (search) search.focus();
      else location.hash = link(["topics"]);
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);
  const counts = { attention: overview?.attention };
  return html`<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  }}>Skip to the content</a>
  <div class=${open ? "shell open" : "shell"}>
    <header class="top">
      <button type="button" class="plain menu" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}>
        <span aria-hidden="true">☰</span> Menu</button>
      <a class="brand" href="#/"><img src="/console/icon.svg" alt="" width="24" height="24" />Sulina</a>
      <${LiveStatus} />
    </header>
    <nav id="nav" class="side" aria-label="Pages">
      <a class="brand" href="#/"><img src="/console/icon.svg" alt="" width="28" height="28" />Sulina</a>
      <ul>${shown.map((each) => html`<li key=${each.name} class=${each.first ? "first" : ""}>
        <a href=${link(each.name === "overview" ? [] : [each.name])} aria-current=${each.name === name ? "page" : undefined}>
          <${Icon} path=${each.icon} /><span class="grow">${each.title}</span>${counts[each.name] ? html`<span class="count">${counts[each.name]}</span>` : ""}</a></li>`)}</ul>
      <div class="foot">
        <${LiveStatus} />
        <p>${whoami().principal}${info.sign_in.token && html` <button type="button" class="plain" onClick=${signOut}>Sign out</button>`}</p>
        <p class="muted">${info.broker} · ${info.version}</p>
        <p><a href="/docs">HTTP API</a></p>
        <${ThemeButton} />
      </div>
    </nav>
    <main id="main" tabindex="-1">
      <${WithoutMetadata} overview=${overview} broker=${info.broker} />
      ${page
        ? html`<${page.view} key=${path.join("/")} path=${path.slice(1)} query=${query} />`
        : html`<${Page} title="There is no such page"><${Note}>The address names none of the console's pages.
            <a href="#/">Go to the overview</a><//><//>`}
    </main>
  </div>`;
}

function App() {
  const [state, setState] = useState({ step: "start" });
  const start = async (problem = null) => {
    let info;
    try {
      info = await about();
    } catch (error) {
      setState({ step: "failed", problem: error });
      return;
    }
    try {
      await finishSignIn(info.sign_in.provider);
    } catch (error) {
      problem = error;
    }
    if (info.sign_in.token && !session.token) {
      setState({ step: "sign-in", info, problem });
      return;
    }
    try {
      await loadRights();
    } catch (error) {
      if (error.status === 401) {
        session.token = "";
        setState({ step: "sign-in", info, problem: error });
      } else setState({ step: "failed", problem: error });
      return;
    }
    startLive(may("cluster"));
    setState({ step: "ready", info });
  };
  useEffect(() => {
    start();
    return onSignedOut(() => {
      if (!session.token) return;
      session.token = "";
      setState((last) => (last.step === "ready"
        ? { step: "sign-in", info: last.info, problem: { title: "You are signed out", message: "the token is not valid any more: sign in again" } }
        : last));
    });
  }, []);
  const signOut = () => {
    session.token = "";
    location.hash = "";
    location.reload();
  };
  if (state.step === "ready") return html`<${Shell} info=${state.info} signOut=${signOut} />`;
  if (state.step === "sign-in") return html`<${SignIn} about=${state.info} problem=${state.problem} done=${() => start()} />`;
  if (state.step === "failed") return html`<main class="sign-in"><${Trouble} problem=${state.problem} retry=${() => start()} /></main>`;
  return html`<p class="boot" role="status">Loading the console…</p>`;
}

applyTheme(localStorage.getItem(THEME) ?? "auto");
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
