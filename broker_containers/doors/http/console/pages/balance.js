// Balance: how evenly the load is spread, what was moved and why, what was not, and the plan now.

import { get, post } from "../api.js";
import { count, percent, words } from "../format.js";
import { html, useState } from "../html.js";
import { Act, Card, CopyAs, Empty, Facts, Loaded, Meter, Note, Page, Pill, Table, Time, useLoaded } from "../parts.js";
import { topicLink } from "../router.js";

const number = (value) => (value == null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 3 }));

function Moves({ plan }) {
  return html`<${Table} label="Moves" rows=${plan.moves} rowKey=${(row) => row.topic}
    empty=${html`<${Empty} title="Nothing moves now">${Object.keys(plan.reasons).map((name) => html`<div key=${name}><strong>${words(name)}:</strong> ${MEANINGS[name]}</div>`)}<//>`}
    columns=${[
      { label: "Topic", cell: (row) => html`<a href=${topicLink(row.topic)}>${row.topic}</a>` },
      { label: "From", cell: (row) => row.source },
      { label: "To", cell: (row) => row.target },
      { label: "Why", cell: (row) => words(row.why) },
      { label: "Load", number: true, cell: (row) => number(row.cost) },
    ]} />`;
}

/** What the counted words mean, and what to do about them. */
const MEANINGS = {
  new: "a topic that was placed for the first time",
  overload: "its broker had far more load than the others",
  fill: "the broker that got it had far less load than the others",
  drain: "its broker is being emptied",
  failover: "its broker was gone",
  manual: "somebody asked for it",
  forced: "its broker did not hand it over in time",
  cancelled: "given up, because the broker to get it was gone",
  dry_run: "topics would have moved, but a setting only lets moves be shown: balance.dry_run",
  disabled: "rebalancing is off: set balance.enabled",
  too_few_brokers: "fewer than two brokers are active: add one",
  blind: "half of the reports or more are old: check the leader's connection to the metadata store",
  quiet: "there is too little load to act on",
  balanced: "no broker is out of balance",
  confirming: "a broker is out of balance, but not for long enough",
  stale_report: "a broker's report is too old: check that broker",
  draining: "a broker is being emptied: activate it to use it again",
  broker_blacklisted: "a setting excludes the broker",
  topic_blacklisted: "a setting excludes the topic",
  broker_cooldown: "the broker recently took part in moves in the other direction",
  topic_cooldown: "the topic was moved recently",
  returning: "the topic would return to a broker that it left",
  move_limit: "as many topics were moved as one interval allows",
  load_limit: "as much load was moved as one interval allows",
  broker_move_limit: "the broker took part in as many moves as one interval allows",
  too_big: "no broker would be less loaded than the source: use more partitions",
  too_small: "an interval full of such moves would change nothing",
  affinity: "a rule prevents it: add brokers with that label",
  apart: "a partition of the same topic is there: add brokers",
  no_better_target: "no broker stays below its limit with it: add brokers",
  no_broker: "no broker can take topics: activate one",
};

const meaning = (name) => MEANINGS[name] && html`<br /><small class="muted">${MEANINGS[name]}</small>`;

const reasons = (found, label) => html`<${Table} label=${label} rows=${Object.entries(found)} columns=${[
  { label: "Reason", cell: ([name]) => html`${words(name)}${meaning(name)}` }, { label: "Times", number: true, cell: ([, times]) => count(times) }]}
  empty=${html`<${Empty} title="None">Nothing was counted since the leader took over.<//>`} />`;

const few = 20;
const all = 300;

function Names({ row }) {
  const shown = row.names.slice(0, 3);
  const more = row.topics - shown.length;
  return html`${shown.map((name, index) => html`${index > 0 && ", "}<a href=${topicLink(name)}>${name}</a>`)}
    ${more > 0 && html` <span class="muted" title=${row.names.slice(3).join("\n")}>and ${count(more)} more</span>`}`;
}

/** What leaders moved, and round by round what they left where it was. */
function History() {
  const [limit, setLimit] = useState(few);
  const found = useLoaded((signal) => get("/balance/history", { limit }, signal), [limit], 10000);
  const more = (rows) => rows.length >= limit && limit < all && html`<div class="pages">
    <span class="muted">the newest ${count(rows.length)}</span>
    <button type="button" onClick=${() => setLimit(all)}>More</button></div>`;
  const actions = html`<${CopyAs} cli=${`sulina balance history --limit ${limit}`} path="/balance/history" query=${{ limit }} />`;
  return html`<${Loaded} from=${found}>${({ moves, rounds }) => html`
    <${Card} title="Moved" actions=${actions}>
      <${Table} label="Moved" rows=${moves} rowKey=${(row) => `${row.at_us} ${row.why} ${row.source} ${row.target}`}
        empty=${html`<${Empty} title="Nothing was moved yet">Topics move when a broker has far more load than the others, is drained, or is gone; or with <code>sulina topic move</code><//>`}
        columns=${[
          { label: "When", cell: (row) => html`<${Time} us=${row.at_us} />` },
          { label: "Topics", cell: (row) => html`<${Names} row=${row} />` },
          { label: "From", cell: (row) => html`<span class="nowrap">${row.source}</span>` },
          { label: "To", cell: (row) => html`<span class="nowrap">${row.target}</span>` },
          { label: "Why", cell: (row) => html`${words(row.why)}${meaning(row.why)}` },
          { label: "Load", number: true, cell: (row) => number(row.cost || null) },
        ]} />${more(moves)}<//>
    <${Card} title="Rounds of rebalancing" actions=${actions}>
      <${Table} label="Rounds of rebalancing" rows=${rounds} rowKey=${(row) => row.since_us}
        empty=${html`<${Empty} title="There was no round yet">The leader looks at the balance every 30 seconds, or as <code>cluster.rebalance_seconds</code> says.<//>`}
        columns=${[
          { label: "From", cell: (row) => html`<${Time} us=${row.since_us} />` },
          { label: "Until", cell: (row) => html`<${Time} us=${row.until_us} />` },
          { label: "Rounds", number: true, cell: (row) => count(row.rounds) },
          { label: "Moved", number: true, cell: (row) => count(row.moved) },
          { label: "Not moved, because", cell: (row) => Object.entries(row.reasons).map(([name, times]) => html`<div key=${name}>${words(name)}${times > 1 && ` (${count(times)} times)`}
            <small class="muted"> ${MEANINGS[name]}</small></div>`) },
        ]} />${more(rounds)}<//>`}<//>`;
}

export function Balance() {
  const brokers = useLoaded((signal) => get("/cluster", {}, signal), []);
  if (!brokers.value) return html`<${Page} title="Balance"><${Loaded} from=${brokers} /><//>`;
  return html`<${Loaded} from=${brokers}>${(cluster) => (cluster.term === 0
    ? html`<${Page} title="Balance"><${Note}>This is a single broker, so there is nothing to balance. ${" "}<code>sulina up --brokers 3 --storage 3 --etcd 3</code> runs a cluster.<//><//>`
    : html`<${OfCluster} />`)}<//>`;
}

function OfCluster() {
  const shown = useLoaded((signal) => get("/balance", {}, signal), [], 5000);
  const plan = useLoaded((signal) => get("/balance/plan", {}, signal), [], 10000);
  return html`<${Page} title="Balance" about="How the leader spreads topics over brokers."
      actions=${html`<${CopyAs} cli="sulina balance show" path="/balance" />
        <${Act} label="Rebalance now" explain="The plan below is carried out at once. Clients follow their topics."
          act=${() => post("/balance/rebalance")} done=${plan.reload} copy=${() => ({ cli: "sulina balance rebalance", verb: "POST", path: "/balance/rebalance", body: {} })} />`}>
    <${Loaded} from=${shown}>${(value) => {
      const most = Math.max(...value.brokers.map((each) => each.load), 1e-9);
      return html`<section class="card"><${Facts} line rows=${[
        ["Leader", value.leader], ["Ranking", words(value.ranking)],
        ["Highest over mean", number(value.balance.max_over_mean)],
        ["Variation", percent(value.balance.cv)],
        ["Acts above and below", `${number(value.high)} and ${number(value.low)} of the mean`],
      ]} /></section>
      <${Card} title="Load of the brokers"><${Table} label="Load of the brokers" rows=${value.brokers} rowKey=${(row) => row.broker} columns=${[
        { label: "Broker", cell: (row) => row.broker },
        { label: "Load", number: true, cell: (row) => number(row.load) },
        { label: "Compared", cell: (row) => html`<${Meter} share=${row.load / most} label=${number(row.load)} />` },
        { label: "Topics", number: true, cell: (row) => count(row.topics) },
        { label: "State", cell: (row) => html`<${Pill}>${words(row.state)}<//>` },
        { label: "Trust in its report", number: true, cell: (row) => percent(row.trust) },
      ]} /><//>`;
    }}<//>
    <${Card} title="The plan now" actions=${html`<${CopyAs} cli="sulina balance plan" path="/balance/plan" />`}>
      <${Loaded} from=${plan}>${(value) => html`<${Moves} plan=${value} />`}<//><//>
    <${History} />
    <${Loaded} from=${shown}>${(value) => html`<div class="columns">
      <${Card} title="Moved since this leader leads, by cause">${reasons(value.moves, "Moved, by cause")}<//>
      <${Card} title="Not moved since then, by reason">${reasons(value.reasons, "Not moved, by reason")}<//>
    </div>`}<//>
  <//>`;
}
