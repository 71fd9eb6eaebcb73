// Balance: how evenly the load is spread, what was moved and why, what was not, and the plan now.

import { get, post } from "../api.js";
import { count, percent, words } from "../format.js";
import { html } from "../html.js";
import { Act, Card, CopyAs, Empty, Facts, Loaded, Meter, Note, Page, Pill, Table, useLoaded } from "../parts.js";
import { topicLink } from "../router.js";

const number = (value) => (value == null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 3 }));

function Moves({ plan }) {
  return html`<${Table} label="Moves" rows=${plan.moves} rowKey=${(row) => row.topic}
    empty=${html`<${Empty} title="Nothing needs to move">The load is spread well enough, or every move is ruled out by a reason above.<//>`}
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

const reasons = (found, label) => html`<${Table} label=${label} rows=${Object.entries(found)} columns=${[
  { label: "Reason", cell: ([name]) => html`${words(name)}${MEANINGS[name] && html`<br /><small class="muted">${MEANINGS[name]}</small>`}` }, { label: "Times", number: true, cell: ([, times]) => count(times) }]}
  empty=${html`<${Empty} title="None">Nothing was counted since the leader took over.<//>`} />`;

export function Balance() {
  const brokers = useLoaded((signal) => get("/cluster", {}, signal), []);
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
      ]} /><//>
      <div class="columns">
        <${Card} title="Moved, by cause">${reasons(value.moves, "Moved, by cause")}<//>
        <${Card} title="Not moved, by reason">${reasons(value.reasons, "Not moved, by reason")}<//>
      </div>`;
    }}<//>
    <${Card} title="The plan now" actions=${html`<${CopyAs} cli="sulina balance plan" path="/balance/plan" />`}>
      <${Loaded} from=${plan}>${(value) => html`<${Moves} plan=${value} />`}<//><//>
  <//>`;
}
