"""Schemas of topics, by subject and version.

* ``/schemas/{subject}/metadata``: a subject, which exists while this key does. Every change of a
  subject swaps this key, so that two brokers never assign the same version.
* ``/schemas/{subject}/versions/{number}``: one version. Never changed, only deleted.
* ``/schema_ids/next``: the next subject id; none is reused.
* ``/schema_ids/{id}``: the subject of an id, and the numbers of its versions.
* ``/topics/{namespace}/{topic}/schema``: the subject that a topic is bound to; deleted with it.
* ``/schema_topics/{namespace}/{topic}``: a copy of that, for brokers that watch all bindings. It is
  only a hint, because it may outlive a deleted topic.

The ids are outside of ``/schemas/`` so that a subject may have any name.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sulina.errors import CorruptEntry, NotFound
from sulina.metadata.check import MAX_TXN_OPS
from sulina.metadata.keys import record
from sulina.metadata.keys.path import name_of, part, topic_root
from sulina.metadata.store import Get, KeyValue, MetadataStore
from sulina.names import TopicName

SCHEMAS: Final = "/schemas/"
IDS: Final = "/schema_ids/"
NEXT_ID: Final = IDS + "next"
BOUND: Final = "/schema_topics/"
_PAGE: Final = 5_000


class SchemaType(StrEnum):
    """The language of a schema."""

    BYTES = "bytes"
    STRING = "string"
    NUMBER = "number"
    JSON_SCHEMA = "json_schema"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Compatibility(StrEnum):
    """How a new version must relate to earlier ones.

    Backward: its readers can read data of the previous version. Forward: readers of the previous
    version can read its data. Full: both. Transitive: applies to all versions, not only the
    previous one.
    """

    NONE = "none"
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    BACKWARD_TRANSITIVE = "backward_transitive"
    FORWARD_TRANSITIVE = "forward_transitive"
    FULL_TRANSITIVE = "full_transitive"

    @property
    def backward(self) -> bool:
        return self.value.startswith(("backward", "full"))

    @property
    def forward(self) -> bool:
        return self.value.startswith(("forward", "full"))

    @property
    def transitive(self) -> bool:
        return self.value.endswith("_transitive")


class Validation(StrEnum):
    """What happens to a message that violates its topic's schema."""

    NONE = "none"
    """It is not checked."""
    WARN = "warn"
    """It is accepted, counted and logged."""
    ENFORCE = "enforce"
    """It is refused."""


@dataclass(frozen=True, slots=True)
class VersionRef:
    """A version in its subject's record."""

    number: int
    type: SchemaType
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SubjectRecord:
    """A subject. It has at least one version."""

    id: int
    next_version: int
    """The number of the next version; none is reused."""
    versions: tuple[VersionRef, ...]
    """The existing versions, by number."""
    compatibility: Compatibility = Compatibility.BACKWARD
    tags: tuple[str, ...] = ()
    """Of the latest version."""
    created_us: int = 0
    created_by: str | None = None
    """The principal in whose quota it counts; None for nobody, and in older records."""

    @property
    def latest(self) -> VersionRef:
        return self.versions[-1]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a subject."""

    number: int
    type: SchemaType
    fingerprint: str
    definition: str
    """As it was registered, in base64."""
    compiled: str | None = None
    """The compiled form in base64, so that other brokers need no compiler."""
    description: str = ""
    created_by: str = ""
    created_us: int = 0
    tags: tuple[str, ...] = ()

    @property
    def definition_bytes(self) -> bytes:
        return from_text(self.definition)

    @property
    def compiled_bytes(self) -> bytes | None:
        return None if self.compiled is None else from_text(self.compiled)


@dataclass(frozen=True, slots=True)
class IdRecord:
    """The subject of an id and its versions, enough to check a message's schema reference.

    Always written with the subject's record. Small, so that every broker can cache all of them.
    """

    subject: str
    versions: tuple[int, ...] = ()
    created_by: str | None = None
    """As in the subject's record."""


@dataclass(frozen=True, slots=True)
class NextId:
    """The id that the next new subject gets."""

    next: int = 1


@dataclass(frozen=True, slots=True)
class TopicSchemaRecord:
    """The subject that a topic is bound to, and what happens to other messages."""

    subject: str
    validation: Validation = Validation.WARN
    payload: bool = False
    """Whether payloads are checked, and not only the schema that a message names."""


def to_text(raw: bytes) -> str:
    """Encode bytes for a record."""
    return base64.b64encode(raw).decode()


def from_text(text: str) -> bytes:
    """The inverse of ``to_text``. Raises ``CorruptEntry``."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptEntry(f"a stored schema is not base64: {error}") from None


def subject_root(subject: str) -> str:
    """The prefix of everything about a subject."""
    return f"{SCHEMAS}{part(subject)}/"


def subject_key(subject: str) -> str:
    return subject_root(subject) + "metadata"


def version_key(subject: str, number: int) -> str:
    return f"{subject_root(subject)}versions/{number}"


def id_key(schema_id: int) -> str:
    return f"{IDS}{schema_id}"


def topic_key(topic: TopicName) -> str:
    """The key of a topic's binding."""
    return topic_root(topic) + "schema"


def bound_key(topic: TopicName) -> str:
    """The key of the binding's copy for brokers that watch all of them."""
    return f"{BOUND}{part(topic.namespace)}/{part(topic.local)}"


def bound_topic(key: str) -> TopicName:
    """The inverse of ``bound_key``."""
    namespace, _, local = key.removeprefix(BOUND).partition("/")
    return TopicName(name_of(namespace), name_of(local))


async def subject_of(store: MetadataStore, schema_id: int) -> str:
    """The subject of an id. Raises ``NotFound``."""
    item = await store.get(id_key(schema_id))
    if item is None:
        raise NotFound(f"there is no schema with the id {schema_id}: register it first")
    return record.decode(IdRecord, item).subject


async def list_subjects(store: MetadataStore) -> dict[str, SubjectRecord]:
    """All subjects by name, without their definitions, which may be large."""
    names: list[str] = []
    after: str | None = None
    while True:
        page = await store.range(SCHEMAS, limit=_PAGE, after=after, keys_only=True)
        names += [
            name_of(item.key.removeprefix(SCHEMAS).partition("/")[0])
            for item in page.items
            if item.key.endswith("/metadata")
        ]
        if not page.more:
            break
        after = page.items[-1].key
    found: dict[str, SubjectRecord] = {}
    for start in range(0, len(names), MAX_TXN_OPS):
        group = names[start : start + MAX_TXN_OPS]
        result = await store.txn((), [Get(subject_key(name)) for name in group])
        for name, response in zip(group, result.responses, strict=True):
            if response.item is not None:  # deleted meanwhile
                found[name] = record.decode(SubjectRecord, response.item)
    return dict(sorted(found.items()))


async def list_versions(
    store: MetadataStore, subject: str, refs: tuple[VersionRef, ...]
) -> list[VersionRecord]:
    """The versions in ``refs`` that still exist, in order."""
    found = []
    for ref in refs:
        item = await store.get(version_key(subject, ref.number))
        if item is not None:
            found.append(record.decode(VersionRecord, item))
    return found


def read_subject(item: KeyValue | None, subject: str) -> SubjectRecord:
    """A subject's record. Raises ``NotFound`` if there is none."""
    if item is None:
        raise missing(subject)
    return record.decode(SubjectRecord, item)


def missing(subject: str) -> NotFound:
    """The error for a subject that does not exist."""
    return NotFound(f"there is no schema subject {subject!r}: register a schema for it first")
