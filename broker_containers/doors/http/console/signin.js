// Signing in: with a token, or with the OpenID Connect provider that the broker names (an
// authorization code with PKCE, which the browser exchanges itself).

import { Problem, get, session } from "./api.js";
import { html, useEffect, useState } from "./html.js";
import { Field, Trouble } from "./parts.js";

const PENDING = "sulina.sign-in";

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
  .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

async function toProvider(provider) {
  const pending = { state: random(), verifier: random(), hash: location.hash };
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  const url = new URL(provider.authorization_endpoint);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: provider.client_id,
    redirect_uri: `${location.origin}/`,
    scope: provider.scope,
    state: pending.state,
    code_challenge: base64url(digest),
    code_challenge_method: "S256",
  })) url.searchParams.set(name, value);
  location.assign(url);
}

function audienceOf(token) {
  try {
    const claims = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return [claims.aud].flat();
  } catch {
    return [];
  }
}

/** If the provider has sent the person back here, get the token. Returns whether there is one. */
export async function finishSignIn(provider) {
  const given = new URLSearchParams(location.search);
  if (!given.has("state")) return false;
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", `/${pending?.hash ?? ""}`);
  const refuse = (detail) => new Problem(0, { title: "Signing in failed", detail });
  if (!pending || !provider || given.get("state") !== pending.state) {
    throw refuse("the answer does not belong to a sign-in of this tab: start again");
  }
  if (given.has("error")) throw refuse(`the provider says: ${given.get("error_description") ?? given.get("error")}`);
  let answer;
  try {
    answer = await fetch(provider.token_endpoint, {
      method: "POST",
      body: new URLSearchParams({
        grant_type: "authorization_code",
        code: given.get("code"),
        redirect_uri: `${location.origin}/`,
        client_id: provider.client_id,
        code_verifier: pending.verifier,
      }),
    });
  } catch {
    throw refuse(`the provider did not answer: allow ${location.origin} as a web origin of the client there`);
  }
  const tokens = await answer.json().catch(() => ({}));
  if (!answer.ok) throw refuse(`the provider says: ${tokens.error_description ?? tokens.error ?? answer.status}`);
  const found = [tokens.access_token, tokens.id_token]
    .find((token) => token && audienceOf(token).includes(provider.audience));
  if (!found) throw refuse(`the provider issued no JSON Web Token for ${provider.audience}: check the client's audience`);
  session.token = found;
  return true;
}

export function SignIn({ about, problem: before, done }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(before);
  const [busy, setBusy] = useState(false);
  const { provider } = about.sign_in;
  useEffect(() => {
    document.title = "Sign in · Sulina";
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    session.token = token.trim();
    try {
      await get("/whoami");
      done();
    } catch (error) {
      session.token = "";
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<main class="sign-in">
    <form onSubmit=${submit}>
      <img src="/console/icon.svg" alt="" width="48" height="48" />
      <h1>Sign in to Sulina</h1>
      <p class="muted">Broker ${about.broker}, version ${about.version}</p>
      ${problem && html`<${Trouble} problem=${problem} />`}
      ${provider && html`<button type="button" class="primary wide" onClick=${() => toProvider(provider)}>
        Sign in with ${new URL(provider.issuer).host}</button><p class="or">or with a token</p>`}
      <${Field} label="Token" hint="It stays in this tab and is forgotten when you close it.">
        <input type="password" name="token" autocomplete="off" required value=${token} autofocus
          onInput=${(event) => setToken(event.target.value)} />
      <//>
      <button type="submit" class=${provider ? "wide" : "primary wide"} disabled=${busy || !token.trim()}>
        ${busy ? "Signing in…" : "Sign in"}</button>
      <p class="muted small">No token? An administrator creates one:
        <code>sulina security token create NAME --grant consume:/default/orders</code></p>
    </form>
  </main>`;
}
