"""Operations on ledgers, and on the objects that they were tiered to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from sulina.metadata.keys.ledger_list import LedgerState
from sulina.operations.declaration import (
    GET,
    POST,
    OperationGroup,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, TopicText
from sulina.operations.topics import MANAGE_TOPIC, SEE_TOPIC


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger, and the object it was tiered to."""

    topic: TopicText
    ledger: Count
    state: LedgerState
    where: Annotated[str, "entries, object, or entries and object."]
    first_offset: Count
    last_offset: int | None
    records: Annotated[int | None, Between()]
    bytes: Count
    first_time_us: Count
    last_time_us: Count
    object_bytes: Annotated[int | None, Between()]
    digest: str | None
    key: Annotated[str | None, "The object's key in the object store."]


@dataclass(frozen=True, slots=True)
class Offloading:
    """What an offload was started for."""

    topic: TopicText
    ledgers: Annotated[Count, "How many ledgers are to become objects."]
    bytes: Count
    until: Annotated[
        Mapping[str, Count], "The offset of each partition before which all will be in objects."
    ]


@dataclass(frozen=True, slots=True)
class ErasedObject:
    """An object that an erasure replaced."""

    first_offset: Count
    last_offset: Count
    erased: Annotated[Count, "How many of its records were erased."]
    others: Annotated[str, "The digest of all other records, the same before and after."]


@dataclass(frozen=True, slots=True)
class TopicErasure:
    """How far the erasure of keys from a topic is."""

    topic: TopicText
    key_digests: Annotated[tuple[str, ...], "SHA-256 of each key, hexadecimal."]
    began_us: Count
    state: Annotated[str, "closing, tiering, rewriting, done or failed."]
    until_offset: Annotated[Count, "Records below this offset are erased."]
    searched_offset: Annotated[Count, "Everything below this offset was searched."]
    erased: Annotated[Count, "Records erased so far."]
    objects: Annotated[tuple[ErasedObject, ...], "The objects that were replaced."]
    gone_us: Annotated[
        Count, "When the last object that was replaced or removed is deleted, once it is done."
    ]
    problem: Annotated[str, "Why it failed."]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What has to be rewritten for typed columns of the topic's schema."""

    topic: TopicText
    ledgers: Annotated[Count, "How many ledgers have an object that is not rewritten yet."]
    bytes: Annotated[Count, "The size of these objects."]
    waiting: Annotated[Count, "How many of them still have entries, and are rewritten after that."]


class LedgerOperations(OperationGroup, name="ledger"):
    """Operations on ledgers and the objects they were tiered to."""

    @operation(GET("/topics/{topic}/tier"), right=SEE_TOPIC)
    async def list(self, topic: TopicText) -> tuple[LedgerRow, ...]:
        """List the ledgers of a topic and its partitions, and their objects."""

    @operation(
        POST("/topics/{topic}/tier/offload"), right=MANAGE_TOPIC, runs_on=RunsOn.PARTITION_OWNERS
    )
    async def offload(self, topic: TopicText) -> Offloading:
        """Close the ledger being written and start to tier all ledgers to objects."""

    @operation(POST("/topics/{topic}/erasure"), right=MANAGE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def erase(
        self,
        topic: TopicText,
        *,
        key_digests: Annotated[tuple[str, ...], "SHA-256 of each key, hexadecimal."],
    ) -> TopicErasure:
        """Start to erase the records of keys from a topic without partitions, or one partition."""

    @operation(GET("/topics/{topic}/erasure"), right=SEE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def erasure(self, topic: TopicText) -> TopicErasure:
        """Show how far the latest erasure of a topic or partition is."""

    @operation(
        POST("/topics/{topic}/tier/rewrite"), right=MANAGE_TOPIC, runs_on=RunsOn.PARTITION_OWNERS
    )
    async def rewrite(self, topic: TopicText) -> Rewriting:
        """Start to rewrite objects that lack the typed columns of the topic's schema; repeat it to
        see what is left."""

    @operation(POST("/topics/{topic}/tier/verify"), right=MANAGE_TOPIC, audited=False)
    async def verify(self, topic: TopicText, ledger: Count) -> LedgerRow:
        """Read a ledger's whole object and compare it with the recorded digest."""
