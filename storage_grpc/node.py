"""The interface of a storage node for writers, readers and recoveries of ledgers.

Implementations: ``LocalNode`` (an entry store of this process), ``RemoteNode`` (gRPC), and a
simulated one. Their answers have the same meaning:

* success: done, durably;
* ``Fenced``: the ledger is fenced, or was deleted;
* ``NotFound``: the node certainly never acknowledged such an entry;
* ``MaybeLost``: the node does not have the entry, but may have acknowledged and lost it;
* ``CorruptEntry``, ``UnknownOutcome``, any ``Retriable``: unknown. Never take it for "no such
  entry" or for "not written".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Protocol

from storage_grpc.entries import Entry, EntryStore, PerhapsDamaged, absent
from storage_grpc.loss_record import LossRecord
from storage_grpc.outcomes import Done, future_of
from sulina.errors import NotFound, SulinaError, UnknownOutcome
from sulina.runtime.seam import Buffer

_TAIL_ENTRIES = 64


class MaybeLost(UnknownOutcome):
    """The node does not have the entry, but may have acknowledged and lost it."""


@dataclass(frozen=True, slots=True)
class FencedLedger:
    """What a node stores of a ledger that it has just fenced."""

    lac: int
    """The highest LAC; -1 for none."""
    last_entry: int
    """The highest entry; -1 for none. Only a recovery can add more."""
    certain: bool
    """Whether it certainly never acknowledged a later one; otherwise it may have lost some."""
    tail: tuple[Entry, ...] = field(default=(), compare=False)
    """Its entries after the fence, without a gap up to ``last_entry``: all of them, or those after
    the LAC. Empty if they are too large: then read them."""

    def shows(self, first: int) -> list[Entry] | None:
        """The node's entries from ``first`` on; None if the tail does not contain them."""
        if self.last_entry < first:
            return []
        if not self.tail or self.tail[0].entry > first:
            return None
        return list(self.tail[first - self.tail[0].entry :])


class Node(Protocol):
    """One storage node. Calls have no deadline: callers set one."""

    @property
    def id(self) -> str: ...

    @property
    def life(self) -> str:
        """Changes at each start at which the node may have lost a fence.

        This object stands for one life of the node: in another one its appends fail.
        """
        ...

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        """Store an entry. Never blocks and never raises: the future has the error.

        Appends to one node arrive in the order of the calls. The payload must not change before
        the future completes.
        """
        ...

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on, at least one."""
        ...

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        """Fence the ledger durably, then do the same as ``read``."""
        ...

    async def fence(self, ledger: int) -> FencedLedger:
        """Fence the ledger durably; returns what the node stores of it."""
        ...

    async def delete(self, ledger: int) -> None: ...


class LocalNode:
    """A node whose store is in this process. ``loss_record`` says which entries it may deny."""

    tail_bytes = 16 << 10
    """Maximum size of ``FencedLedger.tail``."""

    def __init__(self, id: str, store: EntryStore, loss_record: LossRecord) -> None:
        self.id = id
        self.life = loss_record.life
        self._store = store
        self._loss_record = loss_record

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        try:
            return future_of(
                lambda done: self.submit(ledger, entry, lac, payload, done, recovery=recovery)
            )
        except SulinaError as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    def submit(
        self, ledger: int, entry: int, lac: int, payload: Buffer, done: Done, *, recovery: bool
    ) -> None:
        """As :meth:`append`, but raises why the store does not take the entry, and calls ``done``
        with the outcome."""
        self._store.submit(ledger, entry, lac, payload, done, recovery=recovery)
        if entry == 0 and not recovery:
            self._loss_record.created(ledger)

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        try:
            return await self._store.read(
                ledger, first, max_entries=max_entries, max_bytes=max_bytes, head=head
            )
        except NotFound as error:
            if not self._loss_record.certain(ledger):
                raise MaybeLost(f"{error}, but may have lost it") from None
            raise
        except PerhapsDamaged as error:
            if self._loss_record.certain(ledger):  # the ledger was created after the damage
                raise absent(ledger, first) from None
            raise MaybeLost(str(error)) from None

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        await self._store.fence(ledger)
        return await self.read(ledger, first, max_entries=max_entries, max_bytes=max_bytes)

    async def fence(self, ledger: int) -> FencedLedger:
        await self._store.fence(ledger)
        known = self.known_of(ledger)
        return replace(known, tail=await self._tail(ledger, known))

    async def _tail(self, ledger: int, known: FencedLedger) -> tuple[Entry, ...]:
        stat = self._store.stat(ledger)
        if stat is None or known.last_entry < 0 or not self.tail_bytes:
            return ()
        first = 0 if stat.bytes <= self.tail_bytes else known.lac + 1
        first = max(first, stat.first_entry)
        count = known.last_entry - first + 1
        if not 0 < count <= _TAIL_ENTRIES:
            return ()
        try:
            found = await self._store.read(
                ledger, first, max_entries=count, max_bytes=self.tail_bytes
            )
        except SulinaError:
            return ()  # a read raises the same error
        fits = sum(len(entry.payload) for entry in found) <= self.tail_bytes
        return tuple(found) if fits and len(found) == count else ()

    def known_of(self, ledger: int) -> FencedLedger:
        """The answer to a fence, without the tail."""
        stat = self._store.stat(ledger)
        lac, last = (-1, -1) if stat is None else (stat.lac, stat.last_entry)
        return FencedLedger(lac, last, self._loss_record.certain(ledger))

    async def delete(self, ledger: int) -> None:
        self._loss_record.deleted(ledger)
        await self._store.delete(ledger)
