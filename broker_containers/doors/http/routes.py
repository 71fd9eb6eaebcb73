"""The one table of what the HTTP door offers; routing, OpenAPI and the documentation follow it.

Most rows are methods of ``Admin``, which every door offers alike. The others are the door's own.
``{namespace}`` and ``{topic}`` in a path together name a topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from broker_containers.doors.http import schemas as s
from broker_containers.doors.http.schemas import Schema
from sulina.model import Delivery, SubscriptionType

MESSAGES_TYPE = "application/vnd.sulina.messages+json"
API = "/api/v1"
_TOPIC = API + "/topics/{namespace}/{topic}"
_SUBSCRIPTION = _TOPIC + "/subscriptions/{subscription}"
_SUBJECT = API + "/schemas/{subject}"
_BINDING = API + "/bindings/{scope}/{binding}"
_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    verb: str
    path: str
    call: str
    """The method of ``Admin``, or the name of the door's own operation."""
    summary: str
    answer: Schema = field(default_factory=dict)
    status: int = 200
    """Of success; 204 answers nothing."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    pick: str = ""
    """The field of the method's result that is the answer; all of it if empty."""
    own: bool = False
    """The door has a handler of its own for it."""
    open: bool = False
    """Nobody is asked for a token: what it tells is no secret."""
    media: str = "application/json"
    """Of the answer."""

    @property
    def parameters(self) -> list[str]:
        """What the path names, in order."""
        return _PARAMETER.findall(self.path)

    @property
    def group(self) -> str:
        """The chapter of the documentation."""
        return self.path.removeprefix(API).split("/")[1] if self.path.startswith(API) else "server"


ROUTES: tuple[Route, ...] = (
    # ---- namespaces ----
    Route("GET", f"{API}/namespaces", "namespace.list", "All namespaces.", s.listing(s.NAME)),
    Route(
        "POST",
        f"{API}/namespaces",
        "namespace.create",
        "Make a namespace.",
        s.NOTHING,
        201,
        body=s.taken("namespace", namespace=s.NAME),
    ),
    Route(
        "GET",
        f"{API}/namespaces/{{namespace}}",
        "namespace.describe",
        "A namespace and the limits it sets.",
        s.NAMESPACE,
    ),
    Route(
        "DELETE",
        f"{API}/namespaces/{{namespace}}",
        "namespace.delete",
        "Delete an empty namespace.",
        status=204,
    ),
    Route(
        "GET",
        f"{API}/namespaces/{{namespace}}/policy",
        "namespace.policy",
        "The limits that a namespace sets for its topics.",
        s.POLICY,
    ),
    Route(
        "PATCH",
        f"{API}/namespaces/{{namespace}}/policy",
        "namespace.policy",
        "Change some of them; 0 is no limit.",
        s.POLICY,
        body=s.NAMESPACE_LIMITS,
    ),
    # ---- topics ----
    Route(
        "GET",
        f"{API}/topics",
        "topic.list",
        "Topics, of one namespace or of all.",
        s.listing(s.TOPIC_ROW),
        query={"namespace": s.NAME, "all": s.told(s.FLAG, "With each partition.")},
    ),
    Route(
        "POST",
        f"{API}/topics",
        "topic.create",
        "Make a topic.",
        s.given(topic=s.TOPIC),
        201,
        body=s.taken(
            "topic",
            topic=s.TOPIC,
            delivery=s.choice(Delivery),
            partitions=s.told(s.COUNT, "0 for a topic without partitions."),
            expected_records=s.told(s.COUNT, "Records a second, in and out: a hint for placement."),
            expected_bytes=s.told(s.COUNT, "The same in bytes."),
        ),
    ),
    Route("GET", _TOPIC, "topic.describe", "A topic, its logs and ledgers.", s.TOPIC_DETAILS),
    Route(
        "DELETE",
        _TOPIC,
        "topic.delete",
        "Delete a topic with its partitions, messages and subscriptions.",
        status=204,
    ),
    Route(
        "GET",
        f"{_TOPIC}/partitions",
        "topic.describe",
        "The topic's partitions; itself if it has none.",
        s.listing(s.LOG),
        pick="logs",
    ),
    Route("GET", f"{_TOPIC}/log", "topic.log", "A topic or partition at its owner.", s.LOG),
    Route("GET", f"{_TOPIC}/policy", "topic.policy", "The limits in force for a topic.", s.POLICY),
    Route(
        "PATCH",
        f"{_TOPIC}/policy",
        "topic.policy",
        "Change some of them; null leaves one to the namespace again.",
        s.POLICY,
        body=s.TOPIC_LIMITS,
    ),
    Route(
        "GET",
        f"{_TOPIC}/ledgers",
        "topic.ledgers",
        "The topic's ledgers and where their copies are.",
        s.LEDGERS,
    ),
    Route(
        "GET",
        f"{_TOPIC}/tier",
        "ledger.list",
        "The ledgers of a topic and its partitions, and the objects made of them.",
        s.listing(s.TIERED_LEDGER),
    ),
    Route(
        "POST",
        f"{_TOPIC}/tier/offload",
        "ledger.offload",
        "Close the ledger being written and make objects of all ledgers, now.",
        s.OFFLOADING,
        body=s.taken(),
    ),
    Route(
        "POST",
        f"{_TOPIC}/tier/verify",
        "ledger.verify",
        "Read a ledger's object as a whole and compare it with its digest.",
        s.TIERED_LEDGER,
        body=s.taken("ledger", ledger=s.COUNT),
    ),
    Route(
        "POST",
        f"{_TOPIC}/move",
        "topic.move",
        "Move a topic to another broker, by choice or to the least loaded.",
        s.MOVED,
        body=s.taken(broker=s.NAME),
    ),
    Route(
        "GET",
        f"{API}/lookup/{{namespace}}/{{topic}}",
        "topic.lookup",
        "Which broker serves a topic, and where it is.",
        s.LOOKUP,
    ),
    Route(
        "GET",
        f"{API}/owners",
        "topic.owners",
        "Which topics are served, and by which broker.",
        s.listing(s.OWNED),
        query={"namespace": s.NAME, "broker": s.NAME},
    ),
    # ---- messages ----
    Route(
        "POST",
        f"{_TOPIC}/messages",
        "messages.publish",
        "Publish; answered when it is durable.",
        s.PUBLISHED,
        own=True,
    ),
    Route(
        "GET",
        f"{_TOPIC}/messages",
        "messages.peek",
        "Read messages without a subscription; nothing is acknowledged.",
        s.PEEKED,
        query={
            "start": s.told(s.NAME, "earliest (the default), latest, or an offset."),
            "limit": s.told(s.COUNT, "How many at most; 10 unless told."),
        },
    ),
    # ---- subscriptions ----
    Route(
        "GET",
        f"{_TOPIC}/subscriptions",
        "subscription.list",
        "The subscriptions of a topic.",
        s.listing(s.SUBSCRIPTION),
    ),
    Route(
        "POST",
        f"{_TOPIC}/subscriptions",
        "subscription.create",
        "Make a subscription.",
        s.SUBSCRIPTION,
        201,
        body=s.taken(
            "subscription",
            subscription=s.NAME,
            type=s.choice(SubscriptionType),
            start=s.START,
        ),
    ),
    Route(
        "GET",
        _SUBSCRIPTION,
        "subscription.describe",
        "A subscription, its consumers and counters.",
        s.SUBSCRIPTION_DETAILS,
    ),
    Route(
        "DELETE",
        _SUBSCRIPTION,
        "subscription.delete",
        "Delete a subscription; its consumers are let go.",
        status=204,
    ),
    Route(
        "POST",
        f"{_SUBSCRIPTION}/seek",
        "subscription.seek",
        "Move a subscription that has no consumers.",
        s.SUBSCRIPTION,
        body=s.taken("start", start=s.START),
    ),
    Route(
        "GET",
        f"{_SUBSCRIPTION}/policy",
        "subscription.policy",
        "What happens to messages that are not acknowledged.",
        s.FAILURE_POLICY,
    ),
    Route(
        "PATCH",
        f"{_SUBSCRIPTION}/policy",
        "subscription.policy",
        "Change some of it.",
        s.FAILURE_POLICY,
        body=s.FAILURE_CHANGES,
    ),
    Route(
        "GET",
        f"{_SUBSCRIPTION}/dispatch",
        "subscription.dispatch",
        "How much may be unacknowledged at once.",
        s.DISPATCH,
    ),
    Route(
        "PATCH",
        f"{_SUBSCRIPTION}/dispatch",
        "subscription.dispatch",
        "Change it.",
        s.DISPATCH,
        body=s.DISPATCH_CHANGE,
    ),
    # ---- schemas ----
    Route("GET", f"{API}/schemas", "schema.list", "All subjects.", s.listing(s.SCHEMA_SUBJECT)),
    Route(
        "GET",
        _SUBJECT,
        "schema.get",
        "A schema as it was registered.",
        s.SCHEMA,
        query={"version": s.told(s.COUNT, "The latest unless told.")},
    ),
    Route(
        "DELETE",
        _SUBJECT,
        "schema.delete",
        "Delete a version, or a subject with all of them.",
        status=204,
        query={"version": s.told(s.COUNT, "All unless told.")},
    ),
    Route(
        "GET",
        f"{_SUBJECT}/versions",
        "schema.versions",
        "The versions of a subject.",
        s.listing(s.SCHEMA_VERSION),
    ),
    Route(
        "POST",
        f"{_SUBJECT}/versions",
        "schema.register",
        "Register a schema as the next version, unless it is there already.",
        s.SCHEMA_REGISTERED,
        201,
        body=s.SCHEMA_REGISTER,
    ),
    Route(
        "POST",
        f"{_SUBJECT}/find",
        "schema.find",
        "The version that is the same as a schema; nothing is changed.",
        s.SCHEMA_REGISTERED,
        body=s.taken("type", **s.DEFINITION),
    ),
    Route(
        "POST",
        f"{_SUBJECT}/check",
        "schema.check",
        "Whether a schema could be registered, and why not; nothing is changed.",
        s.SCHEMA_CHECKED,
        body=s.SCHEMA_CHECK,
    ),
    Route(
        "GET",
        f"{_SUBJECT}/compatibility",
        "schema.compatibility",
        "What new versions must be able to do.",
        s.SCHEMA_MODE,
    ),
    Route(
        "PUT",
        f"{_SUBJECT}/compatibility",
        "schema.compatibility",
        "Set it.",
        s.SCHEMA_MODE,
        body=s.SCHEMA_MODE_CHANGE,
    ),
    Route(
        "GET",
        f"{API}/schema-ids/{{id}}",
        "schema.lookup",
        "A schema by the id that messages name.",
        s.SCHEMA,
        query={"version": s.told(s.COUNT, "The latest unless told.")},
    ),
    Route(
        "GET",
        f"{_TOPIC}/schema",
        "schema.topic",
        "The subject of a topic's messages, and what happens to others.",
        s.SCHEMA_TOPIC,
    ),
    Route(
        "PUT",
        f"{_TOPIC}/schema",
        "schema.bind",
        "Bind a topic to a subject, or change what happens to other messages.",
        s.SCHEMA_TOPIC,
        body=s.SCHEMA_BIND,
    ),
    # ---- cluster ----
    Route("GET", f"{API}/stats", "broker.stats", "This broker in a few numbers.", s.STATS),
    Route("GET", f"{API}/cluster", "cluster.describe", "The cluster: who leads it.", s.CLUSTER),
    Route("GET", f"{API}/brokers", "broker.list", "All brokers.", s.listing(s.BROKER)),
    Route(
        "GET",
        f"{API}/brokers/{{broker}}",
        "broker.describe",
        "A broker and its load.",
        s.BROKER_DETAILS,
    ),
    Route(
        "POST",
        f"{API}/brokers/{{broker}}/drain",
        "broker.drain",
        "Move all topics of a broker elsewhere and give it no new ones.",
        s.BROKER_MODE,
        body=s.taken(reason=s.TEXT),
    ),
    Route(
        "POST",
        f"{API}/brokers/{{broker}}/activate",
        "broker.activate",
        "Let a drained broker take topics again.",
        s.BROKER_MODE,
        body=s.taken(reason=s.TEXT),
    ),
    Route("GET", f"{API}/balance", "balance.show", "How evenly the load is spread.", s.OPEN),
    Route(
        "GET",
        f"{API}/balance/plan",
        "balance.plan",
        "What a rebalance would move now; nothing is moved.",
        s.OPEN,
    ),
    Route(
        "POST",
        f"{API}/balance/rebalance",
        "balance.rebalance",
        "Rebalance now.",
        s.OPEN,
        body=s.taken(dry_run=s.FLAG),
    ),
    # ---- settings ----
    Route("GET", f"{API}/config", "config.list", "The settings in force.", s.ANY),
    Route("GET", f"{API}/config/history", "config.history", "Who changed what and when.", s.ANY),
    Route(
        "PUT",
        f"{API}/config/{{name}}",
        "config.set",
        "Change a setting, of all brokers or of one, without a restart.",
        s.ANY,
        body=s.taken("value", value=s.ANY, broker=s.NAME),
    ),
    Route(
        "DELETE",
        f"{API}/config/{{name}}",
        "config.unset",
        "Take a setting back to its default.",
        s.ANY,
        query={"broker": s.NAME},
    ),
    # ---- who may do what ----
    Route(
        "GET",
        f"{API}/principals",
        "principal.list",
        "All principals: their own grants, and what they may do by bindings.",
        s.listing(s.RIGHTS),
    ),
    Route(
        "POST",
        f"{API}/principals/{{principal}}/grants",
        "principal.grant",
        "Allow more; the principal is made if need be.",
        s.PRINCIPAL,
        body=s.taken("grants", grants=s.GRANTS),
    ),
    Route(
        "POST",
        f"{API}/principals/{{principal}}/withdrawals",
        "principal.withdraw",
        "Allow less.",
        s.PRINCIPAL,
        body=s.taken("grants", grants=s.GRANTS),
    ),
    Route(
        "DELETE",
        f"{API}/principals/{{principal}}",
        "principal.delete",
        "Forget a principal; its tokens are worth nothing any more.",
        status=204,
    ),
    Route("GET", f"{API}/roles", "role.list", "All roles.", s.listing(s.ROLE)),
    Route(
        "POST",
        f"{API}/roles",
        "role.create",
        "Make a role, or replace it.",
        s.ROLE,
        201,
        body=s.ROLE_CREATE,
    ),
    Route("GET", f"{API}/roles/{{role}}", "role.describe", "A role.", s.ROLE),
    Route(
        "DELETE",
        f"{API}/roles/{{role}}",
        "role.delete",
        "Delete a role; bindings that name it allow less then.",
        status=204,
    ),
    Route(
        "GET",
        f"{API}/bindings",
        "binding.list",
        "All bindings, or those of a scope, or of one namespace or topic.",
        s.listing(s.BINDING),
        query={"scope": s.SCOPE, "resource": s.RESOURCE},
    ),
    Route(
        "POST",
        f"{API}/bindings",
        "binding.create",
        "Give roles to a principal, as far as the scope reaches; replaces one with the same id.",
        s.BINDING,
        201,
        body=s.BINDING_CREATE,
    ),
    Route(
        "GET",
        _BINDING,
        "binding.describe",
        "A binding.",
        s.BINDING,
        query={"resource": s.RESOURCE},
    ),
    Route(
        "DELETE",
        _BINDING,
        "binding.delete",
        "Take the roles back.",
        status=204,
        query={"resource": s.RESOURCE},
    ),
    Route("GET", f"{API}/tokens", "token.list", "All tokens.", s.listing(s.TOKEN)),
    Route(
        "POST",
        f"{API}/tokens",
        "token.create",
        "Make a token; its text is told once, here.",
        s.NEW_TOKEN,
        201,
        body=s.TOKEN_CREATE,
    ),
    Route(
        "DELETE",
        f"{API}/tokens/{{id}}",
        "token.revoke",
        "Make a token worthless.",
        status=204,
    ),
    # ---- the server itself ----
    Route(
        "GET",
        "/health/live",
        "health.live",
        "Whether the process answers.",
        s.HEALTH,
        own=True,
        open=True,
    ),
    Route(
        "GET",
        "/health/ready",
        "health.ready",
        "Whether the broker serves; 503 with the reasons if it does not.",
        s.HEALTH,
        own=True,
        open=True,
    ),
    Route(
        "GET",
        "/metrics",
        "metrics",
        "Metrics in Prometheus' text format.",
        s.TEXT,
        own=True,
        media="text/plain",
    ),
    Route("GET", "/openapi.json", "openapi", "This document.", s.OPEN, own=True, open=True),
    Route(
        "GET", "/docs", "docs", "The documentation.", s.TEXT, own=True, open=True, media="text/html"
    ),
)


def offered(methods: Collection[str]) -> list[Route]:
    """The routes of a broker whose ``Admin`` has these methods; the others need a cluster."""
    return [route for route in ROUTES if route.own or route.call in methods]
