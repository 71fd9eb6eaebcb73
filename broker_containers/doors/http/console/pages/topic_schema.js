// The subject that a topic's messages belong to, and binding the topic to another one.

import { get, put, shellWord, topicPath } from "../api.js";
import { html } from "../html.js";
import { Act, Card, CopyAs, Empty, Facts, Field, Trouble, useLoaded } from "../parts.js";
import { may } from "../rights.js";
import { link } from "../router.js";
import { Versions } from "./schemas.js";

function Bind({ topic, bound, done }) {
  const path = `/topics/${topicPath(topic)}/schema`;
  const body = (values) => ({ subject: values.subject || undefined, validation: values.validation, payload: values.payload === "true" });
  return html`<${Act} label=${bound ? "Change" : "Bind to a subject"} initial=${{ subject: bound?.subject ?? "", validation: bound?.validation ?? "warn", payload: String(bound?.payload ?? false) }}
    act=${(values) => put(path, body(values))} done=${done} copy=${(values) => ({
      cli: `sulina schema topic ${topic} --subject ${shellWord(values.subject)} --validation ${values.validation} --${values.payload === "true" ? "" : "no-"}payload`,
      verb: "PUT", path, body: body(values) })}
    fields=${(values, set) => html`
      <${Field} label="Subject"><input required value=${values.subject} onInput=${(event) => set({ subject: event.target.value })} /><//>
      <${Field} label="Messages of another schema"><select value=${values.validation} onChange=${(event) => set({ validation: event.target.value })}>
        <option value="none">are accepted</option><option value="warn">are accepted and logged</option><option value="enforce">are refused</option></select><//>
      <${Field} label="Payloads"><select value=${values.payload} onChange=${(event) => set({ payload: event.target.value })}>
        <option value="false">are not checked</option><option value="true">are checked against the schema</option></select><//>`} />`;
}

export function TopicSchema({ topic }) {
  const found = useLoaded((signal) => get(`/topics/${topicPath(topic)}/schema`, {}, signal), [topic]);
  const bound = found.value?.subject ? found.value : null;
  const none = found.problem?.status === 404 || (found.value && !bound);
  return html`<div class="stack"><${Card} title="Schema" actions=${html`<${CopyAs} cli=${`sulina schema topic ${topic}`} path=${`/topics/${topicPath(topic)}/schema`} />
      ${may("topics", topic) && (bound || none) && html`<${Bind} topic=${topic} bound=${bound} done=${found.reload} />`}`}>
    ${found.problem && !none && html`<${Trouble} problem=${found.problem} retry=${found.reload} />`}
    ${none && html`<${Empty} title="The topic has no schema">Messages may be anything. Register a subject on the page <a href=${link(["schemas"])}>Schemas</a>, then bind the topic to it.<//>`}
    ${bound && html`<${Facts} rows=${[
      ["Subject", html`<a href=${link(["schemas", bound.subject])}>${bound.subject}</a>`],
      ["Messages of another schema", { none: "are accepted", warn: "are accepted and logged", enforce: "are refused" }[bound.validation]],
      ["Payloads", bound.payload ? "are checked" : "are not checked"],
    ]} />`}
  <//>${bound && html`<${Versions} subject=${bound.subject} />`}</div>`;
}
