// Security: principals, tokens, grants, roles; what a principal may do and why; the audit trail.

import { get, post, remove, shellWord } from "../api.js";
import { words } from "../format.js";
import { html, useState } from "../html.js";
import { Act, Card, CopyAs, CopyButton, Dialog, Empty, Field, Loaded, Note, Page, Pill, Table, Tabs, Time, Trouble, useLoaded } from "../parts.js";
import { whoami } from "../rights.js";
import { link } from "../router.js";

const split = (text) => text.split(/[\s,]+/).filter(Boolean);
const grantsHint = "Each as action:scope, separated by spaces: produce:/default/orders consume:/default/orders#billing admin:*. A deny: before it is a deny rule.";

function Grants({ row, done }) {
  const path = `/principals/${encodeURIComponent(row.principal)}`;
  const act = (command, word, where) => html`<${Act} label=${word} small title=${`${word}: ${row.principal}`} initial=${{ grants: "" }}
    act=${(values) => post(`${path}/${where}`, { grants: split(values.grants) })} done=${done}
    copy=${(values) => ({ cli: `${command} ${shellWord(row.principal)} ${split(values.grants).map(shellWord).join(" ")}`, verb: "POST", path: `${path}/${where}`, body: { grants: split(values.grants) } })}
    fields=${(values, set) => html`<${Field} label="Grants" hint=${grantsHint}><input required value=${values.grants} onInput=${(event) => set({ grants: event.target.value })} /><//>`} />`;
  return html`<div class="actions">${act("sulina security grant", "Grant", "grants")}${act("sulina security withdraw", "Withdraw", "withdrawals")}
    <${Act} label="Delete" small kind="danger" title=${`Delete ${row.principal}`} typed=${row.principal} explain="Its tokens become invalid at once."
      act=${() => remove(path)} done=${done} copy=${() => ({ cli: `sulina security delete ${row.principal}`, verb: "DELETE", path })} /></div>`;
}

const listed = (items, kind = "") => (items?.length ? items.map((each) => html`<${Pill} key=${each} kind=${kind}>${each}<//> `) : html`<span class="muted">none</span>`);

/** Every rule about a principal and where it comes from; deny rules first, because they win. */
const reasons = (row) => [
  ...row.denied.map((rule) => ({ rule, denied: true, why: "its deny rule, which wins over all grants" })),
  ...row.grants.map((rule) => ({ rule, why: "its own grant" })),
  ...row.bindings.flatMap((each) => each.grants.map((rule) => ({ rule,
    why: `the binding ${each.binding}, which gives ${each.roles.join(", ")} on ${each.resource || each.scope}` }))),
];

function Rights({ row }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="small" onClick=${() => setOpen(true)}>Why</button>
    ${open && html`<${Dialog} title=${`What ${row.principal} may do, and why`} close=${() => setOpen(false)}>
      <${Table} label="Rights" rows=${reasons(row)} empty=${html`<${Empty} title="It may do nothing">It has neither grants nor bindings.<//>`} columns=${[
        { label: "Right", cell: (each) => html`<code>${each.rule}</code>` },
        { label: "", cell: (each) => html`<${Pill} kind=${each.denied ? "bad" : "good"}>${each.denied ? "denied" : "allowed"}<//>` },
        { label: "Because of", cell: (each) => each.why },
      ]} />
      <footer><button type="button" onClick=${() => setOpen(false)}>Close</button></footer><//>`}`;
}

function Principals() {
  const found = useLoaded((signal) => get("/principals", {}, signal), []);
  return html`<${Card} title="Principals" actions=${html`<${CopyAs} cli="sulina security list" path="/principals" />
      <${Act} label="Grant" title="Grant rights" initial=${{ principal: "", grants: "" }} done=${found.reload}
        act=${(values) => post(`/principals/${encodeURIComponent(values.principal)}/grants`, { grants: split(values.grants) })}
        copy=${(values) => ({ cli: `sulina security grant ${shellWord(values.principal)} ${split(values.grants).map(shellWord).join(" ")}`, verb: "POST",
          path: `/principals/${encodeURIComponent(values.principal)}/grants`, body: { grants: split(values.grants) } })}
        fields=${(values, set) => html`<${Field} label="Principal" hint="It is created if necessary"><input required value=${values.principal} onInput=${(event) => set({ principal: event.target.value })} /><//>
          <${Field} label="Grants" hint=${grantsHint}><input required value=${values.grants} onInput=${(event) => set({ grants: event.target.value })} /><//>`} />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="Principals" rows=${rows} rowKey=${(row) => row.principal}
      empty=${html`<${Empty} title="There are no principals">Create a token, or grant something to a user of your identity provider.<//>`}
      columns=${[
        { label: "Principal", cell: (row) => row.principal },
        { label: "Own grants", cell: (row) => listed(row.grants) },
        { label: "By bindings", cell: (row) => listed(row.bindings.map((each) => `${each.roles.join(", ")} on ${each.resource || each.scope}`), "accent") },
        { label: "Deny rules", cell: (row) => listed(row.denied, "bad") },
        { label: "", cell: (row) => html`<${Rights} row=${row} />` },
        { label: "", cell: (row) => html`<${Grants} row=${row} done=${found.reload} />` },
      ]} />`}<//>
  <//>`;
}

const secondsOf = (values) => Math.round(Number(values.days) * 86400);
const tokenOf = (values) => ({ principal: values.principal, grants: split(values.grants), seconds: secondsOf(values), note: values.note });

function Tokens() {
  const found = useLoaded((signal) => get("/tokens", {}, signal), []);
  return html`<${Card} title="Tokens" actions=${html`<${CopyAs} cli="sulina security token list" path="/tokens" />
      <${Act} label="Create token" kind="primary" initial=${{ principal: "", grants: "", days: 30, note: "" }} done=${found.reload}
        act=${async (values) => {
          const made = await post("/tokens", tokenOf(values));
          return { show: html`<strong>Copy the token now: it is not shown again.</strong><p><code>${made.token}</code></p><${CopyButton} text=${made.token} label="Copy token" />` };
        }}
        copy=${(values) => ({
          cli: `sulina security token create ${shellWord(values.principal)}${split(values.grants).map((each) => ` --grant ${shellWord(each)}`).join("")}${Number(values.days) ? ` --expires ${secondsOf(values)}s` : ""}${values.note ? ` --note ${shellWord(values.note)}` : ""}`,
          verb: "POST", path: "/tokens", body: tokenOf(values) })}
        fields=${(values, set) => html`
          <${Field} label="Principal"><input required value=${values.principal} onInput=${(event) => set({ principal: event.target.value })} /><//>
          <${Field} label="Grants" hint=${grantsHint}><input value=${values.grants} onInput=${(event) => set({ grants: event.target.value })} /><//>
          <${Field} label="Valid for, days" hint="0 is for ever"><input type="number" min="0" step="any" value=${values.days} onInput=${(event) => set({ days: event.target.value })} /><//>
          <${Field} label="Note"><input value=${values.note} onInput=${(event) => set({ note: event.target.value })} /><//>`} />`}>
    <${Loaded} from=${found}>${(rows) => html`<${Table} label="Tokens" rows=${rows} rowKey=${(row) => row.id}
      empty=${html`<${Empty} title="No token was created">Create one for each program, with the grants that it needs.<//>`}
      columns=${[
        { label: "Id", cell: (row) => html`<code>${row.id}</code>` },
        { label: "Principal", cell: (row) => row.principal },
        { label: "Created", cell: (row) => html`<${Time} us=${row.created_us} />` },
        { label: "Expires", cell: (row) => (row.expires_us ? html`<${Time} us=${row.expires_us} />` : "never") },
        { label: "Note", cell: (row) => row.note },
        { label: "", cell: (row) => html`<${Act} label="Revoke" small kind="danger" title=${`Revoke ${row.id}`} explain="It becomes invalid at once, also for connected clients."
          act=${() => remove(`/tokens/${encodeURIComponent(row.id)}`)} done=${found.reload} copy=${() => ({ cli: `sulina security token revoke ${row.id}`, verb: "DELETE", path: `/tokens/${row.id}` })} />` },
      ]} />`}<//>
  <//>`;
}

/** Gives roles to somebody. */
function Bind({ roles, done }) {
  const body = (values) => ({ ...values, roles: split(values.roles), resource: values.scope === "cluster" ? "" : values.resource });
  const field = (values, set) => (name, label, hint) => html`<${Field} label=${label} hint=${hint}>
    <input required value=${values[name]} onInput=${(event) => set({ [name]: event.target.value })} /><//>`;
  const choice = (values, set) => (name, label, all) => html`<${Field} label=${label}>
    <select value=${values[name]} onChange=${(event) => set({ [name]: event.target.value })}>${all.map((each) => html`<option value=${each}>${words(each)}</option>`)}</select><//>`;
  return html`<${Act} label="Create binding" initial=${{ binding: "", principal: "", principal_type: "service_account", roles: "", scope: "namespace", resource: "" }}
    act=${(values) => post("/bindings", body(values))} done=${done}
    copy=${(values) => ({
      cli: `sulina security binding create ${shellWord(values.binding)} --principal ${shellWord(values.principal)} --principal-type ${values.principal_type} --roles ${shellWord(split(values.roles).join(","))} --scope ${values.scope}${values.scope === "cluster" ? "" : ` --resource ${shellWord(values.resource)}`}`,
      verb: "POST", path: "/bindings", body: body(values) })}
    fields=${(values, set) => html`
      ${field(values, set)("binding", "Id", "A name for the binding; one with the same id is replaced")}
      ${field(values, set)("principal", "Principal or group")}
      ${choice(values, set)("principal_type", "What it is", ["service_account", "user", "group"])}
      ${field(values, set)("roles", "Roles", `Separated by spaces. There ${roles.length ? `are ${roles.map((each) => each.role).join(", ")}` : "are none yet: create one first"}.`)}
      ${choice(values, set)("scope", "Where they apply", ["cluster", "namespace", "topic"])}
      ${values.scope !== "cluster" && field(values, set)("resource", values.scope === "topic" ? "Topic, as /namespace/topic" : "Namespace")}`} />`;
}

function Roles() {
  const roles = useLoaded((signal) => get("/roles", {}, signal), []);
  const bindings = useLoaded((signal) => get("/bindings", {}, signal), []);
  return html`<div class="stack">
    <${Card} title="Roles" actions=${html`<${CopyAs} cli="sulina security role list" path="/roles" />
        <${Act} label="Create role" initial=${{ role: "", permissions: "" }} done=${roles.reload} act=${(values) => post("/roles", { role: values.role, permissions: split(values.permissions) })}
          copy=${(values) => ({ cli: `sulina security role create ${shellWord(values.role)} --permissions ${split(values.permissions).join(",")}`, verb: "POST", path: "/roles", body: { role: values.role, permissions: split(values.permissions) } })}
          fields=${(values, set) => html`<${Field} label="Role"><input required value=${values.role} onInput=${(event) => set({ role: event.target.value })} /><//>
            <${Field} label="Permissions" hint="Lookup, Produce, Consume, Replicate, ManageNamespace, ManageTopic, ManageSchema, ManageBroker, ManageCluster"><input required value=${values.permissions} onInput=${(event) => set({ permissions: event.target.value })} /><//>`} />`}>
      <${Loaded} from=${roles}>${(rows) => html`<${Table} label="Roles" rows=${rows} rowKey=${(row) => row.role} empty=${html`<${Empty} title="There are no roles">A role is a list of permissions that bindings give to principals.<//>`}
        columns=${[{ label: "Role", cell: (row) => row.role }, { label: "Permissions", cell: (row) => listed(row.permissions) },
          { label: "", cell: (row) => html`<${Act} label="Delete" small kind="danger" title=${`Delete ${row.role}`} typed=${row.role} act=${() => remove(`/roles/${encodeURIComponent(row.role)}`)} done=${roles.reload}
            copy=${() => ({ cli: `sulina security role delete ${shellWord(row.role)}`, verb: "DELETE", path: `/roles/${encodeURIComponent(row.role)}` })} />` }]} />`}<//><//>
    <${Card} title="Bindings" actions=${html`<${CopyAs} cli="sulina security binding list" path="/bindings" /><${Bind} roles=${roles.value ?? []} done=${bindings.reload} />`}>
      <${Loaded} from=${bindings}>${(rows) => html`<${Table} label="Bindings" rows=${rows} rowKey=${(row) => row.binding} empty=${html`<${Empty} title="There are no bindings">A binding gives roles to a principal or a group, within a scope.<//>`}
        columns=${[{ label: "Binding", cell: (row) => row.binding }, { label: "Principal", cell: (row) => `${row.principal} (${row.principal_type})` },
          { label: "Roles", cell: (row) => listed(row.roles) }, { label: "Scope", cell: (row) => html`<span class="name">${row.scope} ${row.resource ?? ""}</span>` },
          { label: "", cell: (row) => html`<${Act} label="Delete" small kind="danger" title=${`Delete ${row.binding}`} typed=${row.binding} explain="The principal loses these roles at once."
            act=${() => remove(`/bindings/${encodeURIComponent(row.binding)}`)} done=${bindings.reload}
            copy=${() => ({ cli: `sulina security binding delete ${shellWord(row.binding)}`, verb: "DELETE", path: `/bindings/${encodeURIComponent(row.binding)}` })} />` }]} />`}<//><//>
  </div>`;
}

const OUTCOMES = { done: "good", failed: "bad", refused: "bad", unknown: "warn", started: "" };

export const Outcome = ({ of }) => html`<${Pill} kind=${OUTCOMES[of.outcome] ?? ""} title=${of.detail}>${of.outcome || of.event}<//>`;

function Audit() {
  const found = useLoaded((signal) => get("/audit", { since_us: (Date.now() - 86400000) * 1000, limit: 200, newest_first: true }, signal), []);
  if (found.problem && !found.value) return html`<${Card} title="Audit trail"><${Trouble} problem=${found.problem} /><//>`;
  return html`<${Card} title="Audit trail, the last day" actions=${html`<${CopyAs} cli="sulina security audit" path="/audit" query=${{ limit: 200, newest_first: true }} />`}>
    <${Loaded} from=${found}>${(page) => html`<${Table} label="Audit trail" rows=${page.records.map((each) => each.record).filter(Boolean)} empty=${html`<${Empty} title="Nothing was recorded today">Changes, sign-ins and refusals appear here.<//>`} columns=${[
      { label: "When", cell: (row) => html`<${Time} us=${row.time_us} />` },
      { label: "Who", cell: (row) => row.principal },
      { label: "What", cell: (row) => row.operation || row.event },
      { label: "On", cell: (row) => html`<span class="name">${row.resource}</span>` },
      { label: "Outcome", cell: (row) => html`<${Outcome} of=${row} />` },
      { label: "Why", cell: (row) => html`<small class="name">${row.detail}</small>` },
    ]} />`}<//>
  <//>`;
}

const TABS = [["principals", "Principals"], ["tokens", "Tokens"], ["roles", "Roles and bindings"], ["audit", "Audit trail"]];
const VIEWS = { principals: Principals, tokens: Tokens, roles: Roles, audit: Audit };

export function Security({ query }) {
  const tab = VIEWS[query.tab] ? query.tab : "principals";
  const View = VIEWS[tab];
  const own = whoami();
  return html`<${Page} title="Security" about=${`You are ${own.principal}.`} actions=${html`<${CopyAs} cli="sulina whoami" path="/whoami" />`}>
    ${own.principal === "anyone" && html`<${Note} kind="warn">This broker asks for no tokens: everybody who reaches it may do everything. <code>sulina up --auth root.token</code> changes that.<//>`}
    <${Tabs} tabs=${TABS} now=${tab} href=${(key) => link(["security"], { tab: key })} />
    <${View} />
  <//>`;
}
