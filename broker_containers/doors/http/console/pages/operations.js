// Every operation that the broker declares, with a form: what no other page offers can be done here.

import { call } from "../api.js";
import { html, useState } from "../html.js";
import { Card, CopyAs, Empty, Field, Json, Loaded, Page, Pill, Trouble, useLoaded } from "../parts.js";
import { link } from "../router.js";

const API = "/api/v1";

async function declared() {
  const document = await (await fetch("/openapi.json")).json();
  const resolve = (schema) => (schema?.$ref ? { ...document.components.schemas[schema.$ref.split("/").pop()], ...schema } : schema ?? {});
  return Object.entries(document.paths).filter(([path]) => path.startsWith(API)).flatMap(([path, verbs]) => Object.entries(verbs).map(([verb, each]) => {
    const body = resolve(each.requestBody?.content?.["application/json"]?.schema);
    return {
      id: each.operationId, name: each.operationId.replace(/^\w+\./, ""), verb: verb.toUpperCase(), path: path.slice(API.length), group: each.tags[0],
      summary: each.summary, description: each.description ?? "",
      parameters: each.parameters.filter((one) => one.in !== "header").map((one) => ({ name: one.name, place: one.in, required: one.required, schema: resolve(one.schema), hint: one.description })),
      fields: Object.entries(body.properties ?? {}).map(([name, schema]) => ({ name, place: "body", required: (body.required ?? []).includes(name), schema: resolve(schema), hint: schema.description })),
      hasBody: Boolean(each.requestBody),
    };
  }));
}

/** Text as JSON where the schema wants something else than text. */
function valueOf(field, text) {
  const types = [field.schema.type].flat();
  if (types.includes("string") && !/^[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function One({ operation }) {
  const [values, setValues] = useState({});
  const [state, setState] = useState(null);
  const inputs = [...operation.parameters, ...operation.fields];
  const given = (place) => inputs.filter((each) => each.place === place && (values[each.name] ?? "") !== "");
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ""));
  const query = Object.fromEntries(given("query").map((each) => [each.name, values[each.name]]));
  const body = operation.hasBody ? Object.fromEntries(given("body").map((each) => [each.name, valueOf(each, values[each.name])])) : undefined;
  const run = async (event) => {
    event.preventDefault();
    setState({ busy: true });
    try {
      setState({ result: await call(operation.verb, path, { query, body }), done: true });
    } catch (problem) {
      setState({ problem });
    }
  };
  return html`<${Page} title=${operation.name} back=${[link(["operations"]), "Operations"]} about=${operation.summary}
      actions=${html`<${CopyAs} verb=${operation.verb} path=${path} query=${query} body=${body} />`}>
    <${Card} title=${`${operation.verb} ${API}${operation.path}`}>
      <form class="form" onSubmit=${run}>
        ${inputs.map((each) => html`<${Field} key=${each.place + each.name} label=${`${each.name}${each.required ? "" : " (optional)"}`} hint=${each.hint ?? each.schema.description}>
          ${each.schema.enum
            ? html`<select value=${values[each.name] ?? ""} required=${each.required} onChange=${(event) => setValues({ ...values, [each.name]: event.target.value })}><option value=""></option>${each.schema.enum.map((one) => html`<option>${one}</option>`)}</select>`
            : html`<input required=${each.required} value=${values[each.name] ?? ""} placeholder=${[each.schema.type ?? "text or JSON"].flat().join(" or ")} onInput=${(event) => setValues({ ...values, [each.name]: event.target.value })} />`}<//>`)}
        <div><button type="submit" class=${`primary ${operation.verb === "DELETE" ? "danger" : ""}`} disabled=${state?.busy}>${operation.verb === "GET" ? "Read" : `Run: ${operation.summary.replace(/\.$/, "")}`}</button></div>
      </form>
      ${state?.problem && html`<${Trouble} problem=${state.problem} />`}
      ${state?.done && html`<h3>Result</h3>${state.result === null ? html`<p>Done.</p>` : html`<${Json} value=${state.result} />`}`}
    <//>
  <//>`;
}

export function Operations({ path, query }) {
  const found = useLoaded(declared, []);
  const [text, setText] = useState(query.text ?? "");
  if (path.length) {
    return html`<${Loaded} from=${found}>${(all) => {
      const operation = all.find((each) => each.id === path[0]);
      return operation ? html`<${One} operation=${operation} />` : html`<${Empty} title="There is no such operation"><a href=${link(["operations"])}>All operations</a><//>`;
    }}<//>`;
  }
  const matches = (each) => `${each.name} ${each.summary} ${each.path}`.toLowerCase().includes(text.toLowerCase());
  return html`<${Page} title="Operations" about="Everything that brokers offer over HTTP, with a form for each.">
    <section class="card"><div class="filters"><label class="field grow"><span>Search</span><input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /></label></div></section>
    <${Loaded} from=${found}>${(all) => {
      const groups = Map.groupBy(all.filter(matches), (each) => each.name.split(".")[0]);
      return [...groups].map(([group, rows]) => html`<${Card} key=${group} title=${group}>
        <ul class="operations">${rows.map((each) => html`<li key=${each.id}><a href=${link(["operations", each.id])}>${each.name}</a> <${Pill} kind=${each.verb === "GET" ? "" : each.verb === "DELETE" ? "bad" : "accent"}>${each.verb}<//> <span class="muted">${each.summary}</span></li>`)}</ul><//>`);
    }}<//>
  <//>`;
}
