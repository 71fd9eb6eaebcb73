"""What a broker asks of the cold tier, whoever does the work.

An object is named by its head: topic, ledger and first offset. Offloading is repeatable: the same
ledger gives the same records, so whoever finds its object there already verifies that one and is
done. Errors are ``sulina.errors``; ``NotFound`` of a read means that the object is certainly gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from storage_grpc.entries import Entry
from sulina.lake.layout import object_key
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.metadata.keys.ledger_list import LedgerRef, TieredRef
from sulina.names import TopicName
from sulina.runtime.seam import Buffer


def head_of(topic: TopicName, ref: LedgerRef) -> ObjectHead:
    """The head of a ledger's object, made or to be made."""
    return ObjectHead(topic, ref.id, ref.first_offset)


def key_of(head: ObjectHead) -> str:
    """Where an object is."""
    return object_key(head.topic, head.first_offset, head.ledger)


@dataclass(frozen=True, slots=True)
class OffloadJob:
    """A closed ledger that shall become an object."""

    head: ObjectHead
    last_offset: int
    last_entry: int
    closing: bytes = b""
    """A control frame that goes behind the ledger's own: how things stood at its end."""


class EntrySource(Protocol):
    """Where entries of a closed ledger come from."""

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on, at least one."""
        ...


class Tier(Protocol):
    """Objects of ledgers. For any number of tasks."""

    @property
    def ready(self) -> bool:
        """Whether there is an object store at present; if not, nothing should be offloaded."""
        ...

    async def offload(self, job: OffloadJob) -> TieredRef:
        """Make the object, unless it is there, read it back and verify it; may take minutes.

        When it returns, the object is durable and holds exactly the ledger's records. Raises
        ``CorruptEntry`` if what was read back differs, ``AlreadyExists`` if an object with other
        records is in its place, ``NotFound`` or ``Unavailable`` if entries can't be had; the
        entries are as they were, whatever is raised.
        """
        ...

    async def read(
        self, head: ObjectHead, offset: int, max_bytes: int, then: ObjectHead | None = None
    ) -> Sequence[Buffer]:
        """Whole frames in order, the first with ``offset``; at least one.

        ``then`` is the object that will be wanted next: it may be fetched ahead.
        """
        ...

    async def read_at(self, head: ObjectHead, time_us: int) -> Buffer | None:
        """The first frame with a record that is not older than ``time_us``; None without one."""
        ...

    async def control(self, head: ObjectHead) -> Sequence[Buffer]:
        """The ledger's control frames, the closing one last if there is one."""
        ...

    async def verify(self, head: ObjectHead) -> ObjectSummary:
        """Read a whole object and compare its records with its digest; what it holds.

        Raises ``CorruptEntry`` if they differ, ``NotFound``, or ``Unavailable``.
        """
        ...

    async def delete(self, heads: Sequence[ObjectHead]) -> None:
        """Delete objects, there or not."""
        ...
