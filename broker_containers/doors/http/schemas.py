"""JSON schemas of what the HTTP door takes and answers; they go into the OpenAPI document.

Those of policies are made from the classes themselves, so that they can't differ.
"""

from __future__ import annotations

from dataclasses import fields
from enum import EnumMeta
from typing import Any

from sulina.metadata.keys.bindings import PrincipalType, Scope
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.roles import Permission
from sulina.metadata.keys.schemas import Compatibility, SchemaType, Validation
from sulina.model import Backoff, Delivery, FailurePolicy, Poison, SubscriptionType

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "integer"}
ANY: Schema = {}


def told(schema: Schema, description: str) -> Schema:
    """``schema`` with a description."""
    return {**schema, "description": description}


def nullable(schema: Schema) -> Schema:
    """``schema``, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def listing(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def choice(kind: EnumMeta) -> Schema:
    """One of an enumeration's values."""
    return {"type": "string", "enum": [item.value for item in kind]}  # type: ignore[var-annotated]


def taken(*required: str, **properties: Schema) -> Schema:
    """An object that a client sends: nothing but these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def given(**properties: Schema) -> Schema:
    """An object that the broker answers: all of these fields, and maybe more later."""
    return {"type": "object", "properties": properties, "required": list(properties)}


OPEN: Schema = {"type": "object"}
NOTHING: Schema = {"type": "object", "properties": {}}

TOPIC = told(NAME, "As /namespace/topic.")
START: Schema = {
    "description": "Where to begin.",
    "oneOf": [
        {"enum": ["latest", "earliest"]},
        taken("offset", offset=COUNT),
        taken("time_us", time_us=told(COUNT, "Microseconds since 1970.")),
    ],
}


def _limit(value: Any) -> Schema:
    return FLAG if isinstance(value, bool) else COUNT


_LIMITS = {field.name: _limit(field.default) for field in fields(Policy)}
POLICY = given(**_LIMITS)
NAMESPACE_LIMITS = taken(**_LIMITS)
TOPIC_LIMITS = taken(
    **{
        name: told(nullable(schema), "null leaves it to the namespace.")
        for name, schema in _LIMITS.items()
    }
)

_FAILURE: dict[str, Schema] = {
    field.name: {Backoff: choice(Backoff), Poison: choice(Poison), str: TEXT}.get(
        type(field.default), COUNT
    )
    for field in fields(FailurePolicy)
}
FAILURE_POLICY = given(**_FAILURE)
FAILURE_CHANGES = taken(**_FAILURE)

STATS = given(
    broker=NAME,
    topics=COUNT,
    producers=COUNT,
    consumers=COUNT,
    cache_bytes=COUNT,
    records_in=COUNT,
    bytes_in=COUNT,
)
NAMESPACE = given(namespace=NAME, topics=COUNT, policy=POLICY)
TOPIC_ROW = given(
    topic=TOPIC,
    delivery=choice(Delivery),
    partitions=told(COUNT, "0 if it is not partitioned."),
    producers=COUNT,
    consumers=COUNT,
    records=told(nullable(COUNT), "null if another broker writes it, who alone knows."),
)
SUBSCRIPTION = given(
    topic=TOPIC,
    subscription=NAME,
    type=choice(SubscriptionType),
    position=told(COUNT, "Everything before this offset is acknowledged."),
    backlog=COUNT,
    consumers=COUNT,
    stalled=told(nullable(TEXT), "Why messages can't be read at present."),
)
LEDGER = given(
    id=COUNT,
    state=NAME,
    first_offset=COUNT,
    last_offset=nullable(NUMBER),
    bytes=COUNT,
)
LOG = given(
    topic=TOPIC,
    start_offset=COUNT,
    end_offset=COUNT,
    epoch=COUNT,
    ledgers=listing(LEDGER),
    producers=listing(NAME),
    subscriptions=listing(SUBSCRIPTION),
    counters=OPEN,
)
TOPIC_DETAILS = given(
    topic=TOPIC,
    delivery=choice(Delivery),
    partitions=COUNT,
    created_us=COUNT,
    logs=listing(LOG),
)
_MAX_UNACKED = told(
    COUNT, "Messages that its consumers together may have unacknowledged; 0 leaves it to them."
)
DISPATCH = given(max_unacked=_MAX_UNACKED)
DISPATCH_CHANGE = taken("max_unacked", max_unacked=_MAX_UNACKED)
CONSUMER = given(name=NAME, active=FLAG, credit_records=NUMBER, credit_bytes=NUMBER, sent=COUNT)
SUBSCRIPTION_DETAILS = given(
    **{name: of for name, of in SUBSCRIPTION["properties"].items() if name != "consumers"},
    failure_policy=FAILURE_POLICY,
    max_unacked=_MAX_UNACKED,
    acked_above={
        "description": "Ranges acknowledged beyond the position, first and last offset.",
        **listing(listing(COUNT)),
    },
    counters=OPEN,
    consumers=listing(CONSUMER),
)

LEDGERS = given(topic=TOPIC, epoch=COUNT, ledgers=listing(OPEN))
TIERED_LEDGER = given(
    topic=TOPIC,
    ledger=COUNT,
    state=NAME,
    where=told(NAME, "Entries, object, or both."),
    first_offset=COUNT,
    last_offset=nullable(NUMBER),
    records=nullable(COUNT),
    bytes=COUNT,
    first_time_us=COUNT,
    last_time_us=COUNT,
    object_bytes=nullable(COUNT),
    digest=nullable(TEXT),
    key=nullable(TEXT),
)
OFFLOADING = given(
    topic=TOPIC,
    ledgers=told(COUNT, "How many are to become objects."),
    bytes=COUNT,
    until=told(OPEN, "The offset of each partition before which everything will be in objects."),
)
LOOKUP = given(
    topic=TOPIC,
    broker=told(NAME, "The topic's owner."),
    epoch=COUNT,
    moving_to=nullable(NAME),
    url=told(TEXT, "For clients of the binary protocol."),
    http=told(TEXT, "Of the owner's HTTP door."),
)
MOVED = given(topic=TOPIC, source=NAME, target=NAME)
BROKER = given(
    broker=NAME,
    url=TEXT,
    http=TEXT,
    admin=TEXT,
    version=TEXT,
    started_us=COUNT,
    labels=listing(TEXT),
    mode=NAME,
    leader=FLAG,
    topics=COUNT,
)
BROKER_DETAILS = given(**BROKER["properties"], load={}, owns=listing(TOPIC))
OWNED = given(topic=TOPIC, broker=NAME, moving_to=nullable(NAME))
BROKER_MODE = given(broker=NAME, mode=NAME)
CLUSTER = given(
    leader=nullable(NAME), answered_by=NAME, topics=COUNT, unassigned=COUNT, brokers=listing(BROKER)
)

_BASE64 = {"type": "string", "contentEncoding": "base64"}

DEFINITION: dict[str, Schema] = {
    "type": told(NAME, "bytes, string, number, json_schema, avro or protobuf."),
    "definition": told(TEXT, "The schema; JSON as a text too."),
    "definition_base64": told(_BASE64, "Any bytes, instead of definition."),
}
_MODE = choice(Compatibility)
SCHEMA_REGISTER = taken("type", **DEFINITION, description=TEXT, by=TEXT, tags=listing(TEXT))
SCHEMA_CHECK = taken("type", **DEFINITION, compatibility=_MODE)
SCHEMA_REGISTERED = given(
    subject=NAME,
    id=told(COUNT, "The subject's: the same for all its versions."),
    version=COUNT,
    new=told(FLAG, "false if the same schema was there."),
    fingerprint=NAME,
)
SCHEMA_CHECKED = given(compatible=FLAG, reasons=listing(TEXT))
SCHEMA_SUBJECT = given(
    subject=NAME,
    id=COUNT,
    type=choice(SchemaType),
    latest=COUNT,
    versions=told(COUNT, "How many there are."),
    compatibility=_MODE,
    tags=listing(TEXT),
)
SCHEMA_VERSION = given(
    subject=NAME,
    id=COUNT,
    version=COUNT,
    type=choice(SchemaType),
    fingerprint=NAME,
    description=TEXT,
    created_by=TEXT,
    created_us=COUNT,
    tags=listing(TEXT),
)
SCHEMA = {
    **given(**SCHEMA_VERSION["properties"], compatibility=_MODE),
    "oneOf": [{"required": ["definition"]}, {"required": ["definition_base64"]}],
}
SCHEMA_MODE = given(subject=NAME, compatibility=_MODE)
SCHEMA_MODE_CHANGE = taken("compatibility", compatibility=_MODE)
SCHEMA_TOPIC = given(
    topic=TOPIC,
    subject=told(nullable(NAME), "null if the topic is not bound."),
    validation=choice(Validation),
    payload=told(FLAG, "Whether payloads are looked at."),
)
SCHEMA_BIND = taken(subject=NAME, validation=choice(Validation), payload=FLAG)

GRANTS = listing(told(NAME, "produce:/default/orders, consume:/default/*, admin:* ..."))
PRINCIPAL = given(
    principal=NAME,
    grants=GRANTS,
    created_us=told(nullable(COUNT), "null for who is known by bindings alone."),
)
_PERMISSIONS = listing(choice(Permission))
ROLE = given(role=NAME, permissions=_PERMISSIONS, system=told(FLAG, "Whether it is there to stay."))
ROLE_CREATE = taken("role", "permissions", role=NAME, permissions=_PERMISSIONS, system=FLAG)
SCOPE = choice(Scope)
RESOURCE = told(TEXT, "A namespace, or a topic; nothing for the cluster.")
_BINDING = {
    "binding": told(NAME, "Its id."),
    "principal": NAME,
    "principal_type": choice(PrincipalType),
    "roles": listing(NAME),
    "scope": SCOPE,
    "resource": RESOURCE,
}
BINDING = given(**_BINDING)
BINDING_CREATE = taken("binding", "principal", "roles", "scope", **_BINDING)
RIGHTS = given(
    **PRINCIPAL["properties"],
    bindings=listing(given(**_BINDING, grants=told(GRANTS, "What its roles allow there."))),
)
TOKEN = given(
    id=NAME,
    principal=NAME,
    created_us=COUNT,
    expires_us=told(nullable(COUNT), "null is never."),
    note=TEXT,
)
TOKEN_CREATE = taken(
    "principal",
    principal=NAME,
    grants=GRANTS,
    seconds=told(COUNT, "How long it holds; 0 is for ever."),
    note=TEXT,
)
NEW_TOKEN = given(
    **TOKEN["properties"],
    token=told(TEXT, "What clients show."),
    enforced=told(FLAG, "Whether brokers ask for tokens at all."),
)

MESSAGE_IN: Schema = {
    **taken(
        payload=told(TEXT, "Text, stored as UTF-8."),
        payload_base64=told(_BASE64, "Any bytes, instead of payload."),
        key=TEXT,
        key_base64=told(_BASE64, "Any bytes, instead of key."),
        attributes={"type": "object", "additionalProperties": TEXT},
        schema_id=told(COUNT, "The schema it was written with; all of a request name the same."),
        schema_version=COUNT,
    ),
    "oneOf": [{"required": ["payload"]}, {"required": ["payload_base64"]}],
}
MESSAGES_IN = taken("messages", messages={"type": "array", "items": MESSAGE_IN, "minItems": 1})
PUBLISHED = given(
    topic=told(TOPIC, "The partition, if the topic has any."), offset=NUMBER, time_us=COUNT
)
PUBLISHED_ALL = given(messages=listing(PUBLISHED))
MESSAGE_OUT: Schema = {
    "type": "object",
    "properties": {
        "offset": COUNT,
        "time_us": COUNT,
        "producer": TEXT,
        "sequence": COUNT,
        "schema_id": told(COUNT, "If it names a schema."),
        "schema_version": COUNT,
        "key": TEXT,
        "key_base64": _BASE64,
        "attributes": {"type": "object", "additionalProperties": TEXT},
        "payload": told(TEXT, "If it is UTF-8 text."),
        "payload_base64": told(_BASE64, "If it is not."),
    },
    "required": ["offset", "time_us", "producer", "sequence", "attributes"],
    "oneOf": [{"required": ["payload"]}, {"required": ["payload_base64"]}],
}
PEEKED = given(
    topic=TOPIC,
    messages=listing(MESSAGE_OUT),
    next_offset=told(COUNT, "Where to go on."),
    at_end=FLAG,
)
HEALTH = given(
    status={"type": "string", "enum": ["live", "ready", "unready"]},
    broker=NAME,
    parts={
        "type": "object",
        "additionalProperties": given(ok=FLAG, detail=TEXT),
    },
)
PROBLEM = given(
    type={"type": "string", "format": "uri-reference"},
    title=TEXT,
    status=COUNT,
    detail=told(TEXT, "The cause, and the remedy."),
    retriable=told(FLAG, "Whether the same request may succeed later."),
)
