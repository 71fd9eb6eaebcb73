"""The interface of the cold tier.

An object is named by its head: topic, ledger and first offset, and if it replaces others its
generation and last offset. Offloads and replacements can be repeated: the same sources give the
same records, so an existing object only has to be verified. Errors are those of
``sulina.errors``; ``NotFound`` from a read means that the object certainly does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from storage_grpc.entries import Entry
from sulina.lake.layout import RemovedMark, object_key
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys.erasures import Ranges
from sulina.metadata.keys.ledger_list import LedgerRef, TieredRef
from sulina.metadata.keys.unreferenced_objects import Place
from sulina.names import TopicName
from sulina.objects.keeping import Keeping
from sulina.runtime.seam import Buffer

CACHE_BYTES: Final = 128 << 20
"""Default limit of the frames of objects that are kept in memory for replays."""


def head_of(topic: TopicName, ref: LedgerRef) -> ObjectHead:
    """The head of a ledger's object, whether or not it exists."""
    if ref.tiered is None or not ref.tiered.generation:
        return ObjectHead(topic, ref.id, ref.first_offset)
    assert ref.last_offset is not None
    return ObjectHead(topic, ref.id, ref.first_offset, ref.tiered.generation, ref.last_offset)


def place_of(head: ObjectHead) -> Place:
    """An object in a record of unreferenced ones; ``ObjectHead(topic, *place)`` reverses it."""
    place = head.ledger, head.first_offset
    return (*place, head.generation, head.last_offset) if head.generation else place


def key_of(head: ObjectHead) -> str:
    """The key of an object."""
    return object_key(head.topic, head.first_offset, head.ledger, head.generation, head.last_offset)


@dataclass(frozen=True, slots=True)
class OffloadJob:
    """A closed ledger to offload."""

    head: ObjectHead
    last_offset: int
    last_entry: int
    closing: bytes = b""
    """A control frame to add at the end: the topic's state when the ledger was closed."""
    schemas: tuple[SchemaVersion, ...] = ()
    """The versions of the schema of the topic's payloads: the object gets typed columns."""


class Rewrite(StrEnum):
    """Why objects are replaced, and so what the new object has."""

    MERGE = "merge"
    """All records, in one large object instead of small ones."""
    TYPED = "typed"
    """All records, with the typed columns of the schema that the topic has now."""
    COMPACT = "compact"
    """The newest record of each key, compared with the records of ``ReplaceJob.later``, too."""
    ERASE = "erase"
    """All records; those of some keys have no content any more."""
    ERASE_OFFSETS = "erase_offsets"
    """All records; those at some offsets, of some keys if any are given, have no content any more.
    A kind of its own, so that storage nodes of earlier versions refuse it."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """An object to replace, as the list names it."""

    head: ObjectHead
    digest: str


@dataclass(frozen=True, slots=True)
class ReplaceJob:
    """Consecutive objects, and the one to replace them."""

    head: ObjectHead
    """Of the new object: the first one's first offset, the last one's ledger and last offset."""
    sources: tuple[SourceObject, ...]
    rewrite: Rewrite
    schemas: tuple[SchemaVersion, ...] = ()
    """As in ``OffloadJob``."""
    later: tuple[SourceObject, ...] = ()
    """Compaction: the objects after the sources, whose records may replace theirs."""
    tombstones_before_us: int = 0
    """Compaction: tombstones published before this time are dropped; 0 keeps all."""
    key_digests: tuple[str, ...] = ()
    """Erasure: the keys, see ``sulina.lake.erasing.key_digest``."""
    erased_us: int = 0
    """Erasure: the time that the erased records say."""
    offsets: Ranges = ()
    """Erasure: ranges of offsets, first and last; only records there are erased."""


@dataclass(frozen=True, slots=True)
class Offloaded:
    """An object that was written and verified."""

    ref: TieredRef
    rejected: int = 0
    """Payloads that do not fit their schema; they have a reason in ``value_error``."""
    erased: int = 0
    """Erasure: how many records were erased."""
    others: str = ""
    """Erasure: the digest of all other records, the same before and after."""


class EntrySource(Protocol):
    """Supplies the entries of a closed ledger."""

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on, at least one."""
        ...


class Tier(Protocol):
    """Objects of ledgers. Any number of tasks may use it."""

    @property
    def ready(self) -> bool:
        """Whether an object store is available; otherwise offload nothing."""
        ...

    async def offload(self, job: OffloadJob) -> Offloaded:
        """Write the object unless it exists, read it back and verify it. May take minutes.

        When it returns, the object is durable and holds exactly the ledger's records. Raises
        ``CorruptEntry`` if what was read back differs, ``AlreadyExists`` if there is an object with
        other records, ``NotFound`` or ``Unavailable`` if entries can't be read. Never changes the
        entries.
        """
        ...

    async def replace(self, job: ReplaceJob) -> Offloaded:
        """Write one object with the records of others, unless it exists, read it back, verify it.

        The others stay. May take minutes. Before it, a notice is written that stops readers of
        plain listings, see ``sulina.lake.layout.notice_key``. Raises as ``offload`` does, and
        ``CorruptEntry`` or ``NotFound`` if an object cannot be read or is not the one named,
        ``Refused`` if the new one would lack the typed columns of the others.
        """
        ...

    async def count_erasable(
        self, head: ObjectHead, key_digests: Sequence[str], offsets: Ranges = ()
    ) -> int:
        """How many records of an object an erasure of these keys, at these offsets if any are
        given, would erase. Reads the whole object."""
        ...

    async def read(
        self, head: ObjectHead, offset: int, max_bytes: int, then: ObjectHead | None = None
    ) -> Sequence[Buffer]:
        """Whole frames in order, at least one; the first contains ``offset``.

        Of an object that lacks some offsets: the first ends after ``offset``, and there is none if
        no record follows.

        ``then`` is the object that will be read next: it may be fetched ahead.
        """
        ...

    async def read_at(self, head: ObjectHead, time_us: int) -> Buffer | None:
        """The first frame with a record not older than ``time_us``; None if there is none."""
        ...

    async def control(self, head: ObjectHead) -> Sequence[Buffer]:
        """The ledger's control frames, the closing one last."""
        ...

    async def verify(self, head: ObjectHead) -> ObjectSummary:
        """Read a whole object and compare its records with its digest; returns its summary.

        Raises ``CorruptEntry`` if they differ, ``NotFound``, or ``Unavailable``.
        """
        ...

    async def mark_removed(
        self, topic: TopicName, mark: RemovedMark, former: Sequence[RemovedMark]
    ) -> None:
        """Put a mark that tells which objects of a topic are removed, then delete former ones."""
        ...

    async def keeping(self) -> Keeping:
        """What the object store keeps of deleted objects."""
        ...

    async def delete(self, heads: Sequence[ObjectHead], notices: Sequence[ObjectHead] = ()) -> None:
        """Delete objects, then the notices of the generations of others; missing ones are
        ignored."""
        ...
