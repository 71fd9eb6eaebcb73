"""Operations on ledgers, and on the objects that they were tiered to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from sulina.metadata.keys.erasures import ErasureState
from sulina.metadata.keys.ledger_list import LedgerState
from sulina.operations.declaration import (
    GET,
    POST,
    OperationGroup,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import OMITTED, Count, TopicText
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
class OffsetRange:
    """Consecutive offsets."""

    first: Count
    last: Count


@dataclass(frozen=True, slots=True)
class TopicErasure:
    """A request to erase records of a topic, and how far it is. Brokers keep it: the topic's next
    owner continues."""

    topic: TopicText
    id: Annotated[Count, "The number of the request, for this topic or partition."]
    key_digests: Annotated[tuple[str, ...], "SHA-256 of each key, hexadecimal."]
    offsets: Annotated[tuple[OffsetRange, ...], "The offsets to erase at, if given."]
    began_us: Count
    ended_us: Annotated[Count, "When it was done, failed or was cancelled."]
    state: ErasureState
    until_offset: Annotated[Count, "Records below this offset are erased."]
    searched_offset: Annotated[Count, "Nothing below this offset is left to erase."]
    erased: Annotated[Count, "Records erased so far."]
    objects: Annotated[tuple[ErasedObject, ...], "The objects that were replaced."]
    proof: Annotated[str, "SHA-256 of a line for each of these objects, as in the audit trail."]
    gone_us: Annotated[
        Count, "When the last object that was replaced or removed is deleted, once it is done."
    ]
    objects_left: Annotated[
        Count, "Replaced and removed objects of the topic that are not deleted yet."
    ]
    problem: Annotated[str, "Why it failed, or why its last attempt did."]
    versions_gone_us: Annotated[
        Count,
        OMITTED,
        "When the versions that the object store keeps of them are gone, too, once it is done; 0 "
        "or absent if that is not known.",
    ] = 0
    kept: Annotated[
        str, OMITTED, "What the object store keeps of deleted objects; empty if nothing."
    ] = ""


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

    @operation(POST("/topics/{topic}/erasures"), right=MANAGE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def erase(
        self,
        topic: TopicText,
        *,
        key_digests: Annotated[tuple[str, ...], "SHA-256 of each key, hexadecimal."] = (),
        offsets: Annotated[
            tuple[OffsetRange, ...], "Erase only at these offsets; without keys, all records there."
        ] = (),
    ) -> TopicErasure:
        """Request to erase records of a topic without partitions, or of one partition."""

    @operation(GET("/topics/{topic}/erasures"), right=SEE_TOPIC, runs_on=RunsOn.TOPIC_OWNER)
    async def erasures(self, topic: TopicText) -> tuple[TopicErasure, ...]:
        """Show the requests to erase records of a topic or partition: open ones and the latest that
        ended, oldest first."""

    @operation(
        POST("/topics/{topic}/erasures/{id}/cancel"),
        right=MANAGE_TOPIC,
        runs_on=RunsOn.TOPIC_OWNER,
    )
    async def cancel_erasure(self, topic: TopicText, id: Count) -> TopicErasure:
        """Cancel a request to erase. What is erased stays erased."""

    @operation(
        POST("/topics/{topic}/tier/rewrite"), right=MANAGE_TOPIC, runs_on=RunsOn.PARTITION_OWNERS
    )
    async def rewrite(self, topic: TopicText) -> Rewriting:
        """Start to rewrite objects that lack the typed columns of the topic's schema; repeat it to
        see what is left."""

    @operation(POST("/topics/{topic}/tier/verify"), right=MANAGE_TOPIC, audited=False)
    async def verify(self, topic: TopicText, ledger: Count) -> LedgerRow:
        """Read a ledger's whole object and compare it with the recorded digest."""
