"""What a storage node keeps, and the interface that every backend of it offers.

A storage node keeps entries of many ledgers. An entry is a whole frame, which is opaque here.
Ids of entries may arrive with gaps (a writer changed its ensemble) and more than once (a writer
or a recovery sent them again). What the interface promises holds for every backend; durability
across a restart is what the backend says of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sulina.errors import CorruptEntry, Fenced, NotFound, Refused, TooLarge
from sulina.runtime.seam import Buffer

MAX_LEDGER = (1 << 64) - 1
MAX_ENTRY = (1 << 63) - 1


class PerhapsDamaged(CorruptEntry):
    """The entry is not found, but the store has damaged places in which it may have been."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it was stored."""

    ledger: int
    entry: int
    lac: int
    """The last add confirmed that the writer knew when it sent this entry; -1 for none."""
    payload: bytes | memoryview
    """Of a read it may be a view of a larger buffer: copy it to keep it for long."""


@dataclass(frozen=True, slots=True)
class LedgerStat:
    """What a node knows of one ledger. Only durable entries count."""

    first_entry: int
    """Lowest entry here; -1 when there is none."""
    last_entry: int
    """Highest entry here; -1 when there is none. There may be gaps below it."""
    last_before_gap: int
    """The entry up to which all from ``first_entry`` on are here; -1 when there is none."""
    lac: int
    """Highest last-add-confirmed seen; -1 for none."""
    fenced: bool
    bytes: int
    """Payload bytes of all entries."""


class EntryStore(Protocol):
    """Entries of many ledgers, each with at most one writer."""

    def append(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        *,
        recovery: bool = False,
    ) -> asyncio.Future[None]:
        """Store an entry. Never blocks; called on the event loop.

        The future is done when the entry is durable, and futures are done in the order of the
        calls. The buffers are not copied: they must not change before that. The same entry with
        the same bytes again succeeds once it is durable. ``recovery`` marks a write by a
        ledger's recovery, the only kind that a fenced ledger still takes.

        Raised at once, with nothing queued: ``Fenced``, ``NotFound`` (the ledger was deleted),
        ``Overloaded`` (see :meth:`wait_writable`), ``TooLarge``, ``Refused`` (an id out of range
        or an empty payload), ``Closed``, ``StorageFailed``. Raised by the future: ``Refused``
        (the entry is there with other bytes), ``StorageFull`` (nothing was stored) and
        ``StorageFailed`` (the disk failed meanwhile: the entry may come back after a restart).
        """
        ...

    async def read(
        self,
        ledger: int,
        first: int,
        *,
        max_entries: int,
        max_bytes: int,
        head: int | None = None,
    ) -> list[Entry]:
        """Consecutive durable entries from ``first`` on, up to the first that is not here.

        At least one, also when it is larger than ``max_bytes``. With ``head`` only that many
        first bytes of each payload are returned (and counted); checksums are verified over the
        whole payload all the same. Raises ``NotFound`` when ``first`` is certainly not here and
        ``CorruptEntry`` when its bytes are damaged, or when it may have been among bytes that
        are; a later damaged entry ends the list.
        """
        ...

    async def fence(self, ledger: int) -> int:
        """Durably refuse all further appends but those of a recovery.

        Returns the highest LAC known once everything appended before is durable; -1 for none. A
        ledger that is not known is created fenced. Raises ``NotFound`` if it was deleted, and
        ``StorageFull`` or ``StorageFailed`` when the fence could not be made durable.
        """
        ...

    async def delete(self, ledger: int) -> None:
        """Durably forget a ledger, known or not; later appends to it are refused."""
        ...

    def stat(self, ledger: int) -> LedgerStat | None:
        """What is known of ``ledger``; None if it is not known or was deleted."""
        ...

    def ledgers(self) -> list[int]:
        """Ids of all ledgers that are known and not deleted, in ascending order."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        ...

    async def wait_writable(self) -> None:
        """Wait until appends are taken again after ``Overloaded`` (or fail for another reason)."""
        ...

    async def close(self) -> None:
        """Stop cleanly: what is pending is made durable, then everything is released."""
        ...


def payload_buffers(
    payload: Buffer | Sequence[Buffer], largest: int
) -> tuple[Sequence[Buffer], int]:
    """The buffers of a payload and their bytes together. Raises ``Refused`` or ``TooLarge``."""
    buffers: Sequence[Buffer]
    if isinstance(payload, bytes | bytearray):
        buffers = (payload,)
        length = len(payload)
    elif isinstance(payload, memoryview):
        buffers = (payload,)
        length = payload.nbytes
    else:
        buffers = payload
        length = sum(memoryview(buffer).nbytes for buffer in buffers)
    if length == 0:
        raise Refused("an entry cannot be empty")
    if length > largest:
        raise TooLarge(f"an entry of {length} bytes is larger than the limit of {largest}")
    return buffers, length


def check_ids(ledger: int, entry: int, lac: int) -> None:
    """Raise ``Refused`` for ids that no ledger has."""
    if not (0 <= ledger <= MAX_LEDGER and 0 <= entry <= MAX_ENTRY and -1 <= lac <= MAX_ENTRY):
        raise Refused(f"ledger {ledger}, entry {entry}, LAC {lac}: an id is out of range")


def fenced(ledger: int) -> Fenced:
    return Fenced(f"ledger {ledger} is fenced: a newer owner took over; stop writing to it")


def deleted(ledger: int) -> NotFound:
    return NotFound(f"ledger {ledger} was deleted; write to a new ledger")


def absent(ledger: int, entry: int) -> NotFound:
    return NotFound(f"ledger {ledger} has no entry {entry} on this node")


def other_bytes(ledger: int, entry: int) -> Refused:
    return Refused(
        f"entry {entry} of ledger {ledger} is already stored with other bytes: "
        "two writers use the same ledger"
    )
