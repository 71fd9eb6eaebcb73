"""Schemas: what the records of topics look like, by subject and version.

* ``/schemas/{subject}/metadata``: a subject; it exists as long as this does. Everything that
  changes a subject swaps this key, so two brokers never give one version twice.
* ``/schemas/{subject}/versions/{number}``: one version. Never changed, only deleted.
* ``/schema_ids/next``: from where ids of subjects are given; none twice.
* ``/schema_ids/{id}``: which subject an id is of, and the numbers of its versions.
* ``/topics/{namespace}/{topic}/schema``: the subject a topic is bound to; it goes with the topic.
* ``/schema_topics/{namespace}/{topic}``: the same once more, written with it, for who follows all
  bound topics. A hint: what is left of a topic that was deleted may still be here.

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
    """In which language a schema is written."""

    BYTES = "bytes"
    STRING = "string"
    NUMBER = "number"
    JSON_SCHEMA = "json_schema"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Compatibility(StrEnum):
    """What a new version must be able to do.

    Backward: its readers read what was written with the version before. Forward: readers of the
    version before read what is written with it. Full: both. Transitive: with all versions, not
    only the one before.
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
    """What happens to a message that is not as its topic's schema says."""

    NONE = "none"
    """It is not looked at."""
    WARN = "warn"
    """It is taken, counted and logged."""
    ENFORCE = "enforce"
    """It is refused."""


@dataclass(frozen=True, slots=True)
class VersionRef:
    """One version, as its subject knows it."""

    number: int
    type: SchemaType
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SubjectRecord:
    """A subject. It has one version at least."""

    id: int
    next_version: int
    """The number of the version to come: a number is never given twice."""
    versions: tuple[VersionRef, ...]
    """Those that are there, by number."""
    compatibility: Compatibility = Compatibility.BACKWARD
    tags: tuple[str, ...] = ()
    """Of the latest version."""
    created_us: int = 0

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
    """What a compiler made of it, in base64, so that no other broker needs the compiler."""
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
    """Which subject an id is of, and which versions it has: all that a name can be checked by.

    Written with the subject's record, always. Small, so that every broker keeps all of them.
    """

    subject: str
    versions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NextId:
    """The id that the next new subject gets."""

    next: int = 1


@dataclass(frozen=True, slots=True)
class TopicSchemaRecord:
    """The subject of a topic's messages, and what happens to others."""

    subject: str
    validation: Validation = Validation.WARN
    payload: bool = False
    """Whether payloads are looked at, and not only which schema a message names."""


def to_text(raw: bytes) -> str:
    """Bytes as a record keeps them."""
    return base64.b64encode(raw).decode()


def from_text(text: str) -> bytes:
    """What ``to_text`` made a text of. Raises ``CorruptEntry``."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptEntry(f"a stored schema is not base64: {error}") from None


def subject_root(subject: str) -> str:
    """The prefix of everything about a subject."""
    return f"{SCHEMAS}{part(subject)}/"


def subject_key(subject: str) -> str:
    """Where a subject's record is."""
    return subject_root(subject) + "metadata"


def version_key(subject: str, number: int) -> str:
    """Where a version is."""
    return f"{subject_root(subject)}versions/{number}"


def id_key(schema_id: int) -> str:
    """Where the subject of an id is named."""
    return f"{IDS}{schema_id}"


def topic_key(topic: TopicName) -> str:
    """Where a topic's binding is."""
    return topic_root(topic) + "schema"


def bound_key(topic: TopicName) -> str:
    """Where the binding is for who follows all of them."""
    return f"{BOUND}{part(topic.namespace)}/{part(topic.local)}"


def bound_topic(key: str) -> TopicName:
    """The topic that ``bound_key`` made a key of."""
    namespace, _, local = key.removeprefix(BOUND).partition("/")
    return TopicName(name_of(namespace), name_of(local))


async def subject_of(store: MetadataStore, schema_id: int) -> str:
    """The subject an id is of. Raises ``NotFound``."""
    item = await store.get(id_key(schema_id))
    if item is None:
        raise NotFound(f"there is no schema with the id {schema_id}: register it first")
    return record.decode(IdRecord, item).subject


async def list_subjects(store: MetadataStore) -> dict[str, SubjectRecord]:
    """All subjects by name. Their definitions, which may be large, are not read."""
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
    """The versions that are still there of those named, one after the other."""
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
