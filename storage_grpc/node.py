"""A storage node as a ledger's writer, reader or recovery sees it, near or far.

Implementations: ``LocalNode`` (an entry store of this process), a gRPC client, and a simulated
one. Whatever carries the calls, the answers mean the same:

* success: the node has done it, durably;
* ``Fenced``: the ledger is fenced there, or was deleted;
* ``NotFound``: the node is certain that it never acknowledged such an entry;
* ``MaybeLost``: the node does not have it, but may have acknowledged and lost it;
* ``CorruptEntry``, ``UnknownOutcome``, any ``Retriable``: not known. Never to be taken for "no such
  entry", and never for "it was not written".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Protocol

from storage_grpc.entries import Entry, EntryStore, PerhapsDamaged, absent
from storage_grpc.loss_record import LossRecord
from sulina.errors import NotFound, SulinaError, UnknownOutcome
from sulina.runtime.seam import Buffer

_TAIL_ENTRIES = 64


class MaybeLost(UnknownOutcome):
    """The node does not have the entry, and its last stop was not clean: it may have had it."""


@dataclass(frozen=True, slots=True)
class FencedLedger:
    """What a node knows of a ledger that it has just fenced."""

    lac: int
    """The highest LAC, -1 for none."""
    last_entry: int
    """The highest entry it has, -1 for none. Only a recovery can add more."""
    certain: bool
    """Whether it certainly never acknowledged one behind that; else it may have lost some."""
    tail: tuple[Entry, ...] = field(default=(), compare=False)
    """Its last entries as they are behind the fence, without a gap, up to ``last_entry``: all of
    it, or those behind its LAC. Nothing if that is much: read it, then."""

    def shows(self, first: int) -> list[Entry] | None:
        """What the node has from ``first`` on; None if the tail does not tell."""
        if self.last_entry < first:
            return []
        if not self.tail or self.tail[0].entry > first:
            return None
        return list(self.tail[first - self.tail[0].entry :])


class Node(Protocol):
    """One storage node. No call has a deadline of its own: callers set them."""

    @property
    def id(self) -> str: ...

    @property
    def life(self) -> str:
        """Another text after each start at which the node may have lost a fence.

        What is in hand means the node in one life: in another one its appends fail.
        """
        ...

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        """Store an entry; never blocks, never raises: every failure comes through the future.

        Appends to one node arrive in the order of the calls. The payload must not change before
        the future is done.
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
        """Fence the ledger durably, then read as ``read`` does."""
        ...

    async def fence(self, ledger: int) -> FencedLedger:
        """Fence the ledger durably, and say what there is of it."""
        ...

    async def delete(self, ledger: int) -> None: ...


class LocalNode:
    """A node whose store is in this process. ``loss_record`` says what it may deny."""

    tail_bytes = 16 << 10
    """Up to so much a fence brings along."""

    def __init__(self, id: str, store: EntryStore, loss_record: LossRecord) -> None:
        self.id = id
        self.life = loss_record.life
        self._store = store
        self._loss_record = loss_record

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        try:
            appended = self._store.append(ledger, entry, lac, payload, recovery=recovery)
        except SulinaError as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        if entry == 0 and not recovery:
            self._loss_record.created(ledger)
        return appended

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        try:
            return await self._store.read(
                ledger, first, max_entries=max_entries, max_bytes=max_bytes, head=head
            )
        except NotFound as error:
            if not self._loss_record.certain(ledger):
                raise MaybeLost(f"{error}; but it may have had it and lost it") from None
            raise
        except PerhapsDamaged as error:
            if self._loss_record.certain(ledger):  # it began after the damage was found
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
            return ()  # whoever reads it is told why not
        fits = sum(len(entry.payload) for entry in found) <= self.tail_bytes
        return tuple(found) if fits and len(found) == count else ()

    def known_of(self, ledger: int) -> FencedLedger:
        """What a fence answers."""
        stat = self._store.stat(ledger)
        lac, last = (-1, -1) if stat is None else (stat.lac, stat.last_entry)
        return FencedLedger(lac, last, self._loss_record.certain(ledger))

    async def delete(self, ledger: int) -> None:
        self._loss_record.deleted(ledger)
        await self._store.delete(ledger)
