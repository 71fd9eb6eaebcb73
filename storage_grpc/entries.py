"""Entries, and the interface of every backend that stores them.

A storage node stores entries of many ledgers. An entry is a frame, opaque here. Entries of a ledger
may arrive with gaps (its writer changed the ensemble) and repeatedly (its writer or a recovery sent
them again). The promises of the interface hold for every backend; whether entries survive a restart
depends on the backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from storage_grpc.outcomes import Done
from sulina.errors import CorruptEntry, Fenced, NotFound, Refused, StorageFull, TooLarge
from sulina.runtime.seam import Buffer

MAX_LEDGER = (1 << 64) - 1
MAX_ENTRY = (1 << 63) - 1


class PerhapsDamaged(CorruptEntry):
    """The entry is not found, but may have been in a damaged part of the store."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored entry."""

    ledger: int
    entry: int
    lac: int
    """The LAC of the writer when it sent this entry; -1 for none."""
    payload: bytes | memoryview
    """May be a view of a larger buffer: copy it to keep it for long."""


@dataclass(frozen=True, slots=True)
class LedgerStat:
    """What a node stores of one ledger. Only durable entries count."""

    first_entry: int
    """Lowest entry; -1 if there is none."""
    last_entry: int
    """Highest entry; -1 if there is none. There may be gaps below it."""
    last_before_gap: int
    """The last entry before the first gap; -1 if there is none."""
    lac: int
    """Highest LAC of its entries and fences; -1 for none."""
    fenced: bool
    bytes: int
    """Payload bytes of all entries."""


class EntryStore(Protocol):
    """Stores entries of many ledgers, each with at most one writer."""

    def submit(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        done: Done,
        *,
        recovery: bool = False,
    ) -> None:
        """Store an entry. Never blocks; called on the event loop.

        ``done`` is called after this has returned: when the entry is durable, or with the reason
        why it is not. Such calls are made in the order of the appends. The buffers are not copied
        and must not change before that. Appending an entry again with the same bytes succeeds once
        it is durable. ``recovery`` marks an append by a ledger's recovery, the only kind that a
        fenced ledger takes.

        Raised, with nothing queued: ``Fenced``, ``NotFound`` (the ledger was deleted),
        ``Overloaded`` (see :meth:`wait_writable`), ``TooLarge``, ``Refused`` (an id out of range
        or an empty payload), ``Closed``, ``StorageFailed``. Passed to ``done``: ``Refused``
        (the entry is stored with other bytes), ``StorageFull`` (nothing was stored) and
        ``StorageFailed`` (the disk failed: the entry may be present after a restart).
        """
        ...

    def append(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        *,
        recovery: bool = False,
    ) -> asyncio.Future[None]:
        """As :meth:`submit`, with the outcome as a future."""
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
        """Consecutive durable entries from ``first`` on, up to the first missing one.

        At least one, even if it is larger than ``max_bytes``. With ``head`` only the first
        ``head`` bytes of each payload are returned and counted; checksums are still verified over
        the whole payload. Raises ``NotFound`` if ``first`` is certainly not stored, and
        ``CorruptEntry`` if it is damaged or may have been in a damaged range. A later damaged
        entry ends the list.
        """
        ...

    async def fence(self, ledger: int) -> int:
        """Durably refuse all further appends except those of a recovery.

        Returns the highest LAC after everything appended before is durable; -1 for none. An
        unknown ledger is created fenced. Raises ``NotFound`` if it was deleted, and
        ``StorageFull`` or ``StorageFailed`` if the fence could not be made durable.
        """
        ...

    async def delete(self, ledger: int) -> None:
        """Durably delete a ledger, known or not; later appends to it are refused."""
        ...

    def stat(self, ledger: int) -> LedgerStat | None:
        """What is stored of ``ledger``; None if it is unknown or was deleted."""
        ...

    def ledgers(self) -> list[int]:
        """Ids of all known ledgers, ascending."""
        ...

    @property
    def full(self) -> StorageFull | None:
        """Why entries are refused for lack of space; None while there is space."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        ...

    async def wait_writable(self) -> None:
        """Wait until appends no longer fail with ``Overloaded``."""
        ...

    async def close(self) -> None:
        """Make pending appends durable, then release all resources."""
        ...


def payload_buffers(
    payload: Buffer | Sequence[Buffer], largest: int
) -> tuple[Sequence[Buffer], int]:
    """The buffers of a payload and their total size. Raises ``Refused`` or ``TooLarge``."""
    buffers: Sequence[Buffer]
    if isinstance(payload, memoryview):
        buffers = (payload,)
        length = payload.nbytes
    elif isinstance(payload, (bytes, bytearray)):  # `bytes | bytearray` is built at every call
        buffers = (payload,)
        length = len(payload)
    else:
        buffers = payload
        length = sum(memoryview(buffer).nbytes for buffer in buffers)
    if length == 0:
        raise Refused("an entry cannot be empty")
    if length > largest:
        raise TooLarge(f"an entry of {length} bytes is larger than the limit of {largest}")
    return buffers, length


def check_ids(ledger: int, entry: int, lac: int) -> None:
    """Raise ``Refused`` if an id is out of range."""
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
