"""The ledger interface of brokers: create, append, close, recover, read, delete.

A ledger is an append-only sequence of entries with one writer. ``EmbeddedLedgers`` stores them in
an entry store of the same process: the ledger protocol with one node and no network.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Protocol

from storage_grpc.entries import Entry, EntryStore
from storage_grpc.outcomes import Done, future_of
from sulina.errors import Fenced, NotFound, StorageFailed, SulinaError
from sulina.runtime.seam import Buffer


class LedgerWriter(Protocol):
    """The only writer of an open ledger."""

    @property
    def ledger(self) -> int: ...

    @property
    def lac(self) -> int:
        """The highest confirmed entry; -1 for none. All entries before it are confirmed too."""
        ...

    def submit(self, payload: Buffer, done: Done) -> None:
        """Append the next entry. Never blocks; ``done`` is called later, in the order of appends.

        That is when the entry is confirmed, or with the reason why it is not. After the first
        failure every later append fails too, with ``Fenced``: the ledger must be recovered before
        the topic takes records again.
        """
        ...

    def append(self, payload: Buffer) -> asyncio.Future[None]:
        """As :meth:`submit`, with the outcome as a future."""
        ...

    @property
    def wants_roll(self) -> bool:
        """Whether entries have fewer copies than configured, and a new ledger would have all."""
        ...

    async def close(self) -> int:
        """Close the ledger at its last confirmed entry, which is returned.

        Raises ``Fenced`` if there is a newer owner or an append failed.
        """
        ...


class Ledgers(Protocol):
    """All ledgers of a cluster."""

    async def create(self, ledger: int) -> LedgerWriter: ...

    async def recover(self, ledger: int) -> int:
        """Fence and close the ledger, so that no earlier writer can append; returns its last entry,
        or -1."""
        ...

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on; see ``EntryStore.read``."""
        ...

    async def delete(self, ledger: int) -> None: ...

    @property
    def overloaded(self) -> bool:
        """Whether too many bytes are not durable: take no publishes until ``wait_writable``."""
        ...

    async def wait_writable(self) -> None: ...


class PendingBytes:
    """Bytes that are not durable yet: overloaded above the high-water mark, until half of it."""

    def __init__(self, high_water: int) -> None:
        self._high_water = high_water
        self._bytes = 0
        self._room: asyncio.Future[None] | None = None

    def add(self, size: int) -> None:
        self._bytes += size

    def remove(self, size: int) -> None:
        self._bytes -= size
        if self._room is not None and self._bytes <= self._high_water // 2:
            self._room.set_result(None)
            self._room = None

    @property
    def overloaded(self) -> bool:
        return self._bytes > self._high_water

    async def wait(self) -> None:
        """Wait until no longer overloaded. Cancelling one waiter does not affect the others."""
        while self.overloaded:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)


class EmbeddedLedgers:
    """Ledgers in an entry store of this process.

    Above ``high_water`` bytes that are not durable it reports that it is overloaded. This is well
    below the limit of the store, so that an accepted append is never refused there.
    """

    def __init__(self, store: EntryStore, high_water: int = 32 << 20) -> None:
        self._store = store
        self._pending_bytes = PendingBytes(high_water)

    async def create(self, ledger: int) -> LedgerWriter:
        return _EmbeddedWriter(self._store, ledger, self._pending_bytes)

    async def recover(self, ledger: int) -> int:
        await self._store.fence(ledger)
        stat = self._store.stat(ledger)
        last = stat.last_before_gap if stat is not None and stat.first_entry == 0 else -1
        try:
            await self._store.read(ledger, last + 1, max_entries=1, max_bytes=1)
        except NotFound:
            return last
        # Only "no such entry" proves the end: a damaged entry must not cut the ledger short.
        raise StorageFailed(f"the end of ledger {ledger} after entry {last} is uncertain")

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        return await self._store.read(
            ledger, first, max_entries=max_entries, max_bytes=max_bytes, head=head
        )

    async def delete(self, ledger: int) -> None:
        await self._store.delete(ledger)

    @property
    def overloaded(self) -> bool:
        return self._pending_bytes.overloaded

    async def wait_writable(self) -> None:
        await self._pending_bytes.wait()


class _EmbeddedWriter:
    wants_roll = False

    def __init__(self, store: EntryStore, ledger: int, pending_bytes: PendingBytes) -> None:
        self._store = store
        self._pending_bytes = pending_bytes
        self.ledger = ledger
        self.lac = -1
        self._next = 0
        self._broken = False
        """Whether an entry failed: later ones are refused."""
        self._gap = False
        """Whether an entry that the store took is not stored."""
        self._under_way: deque[tuple[int, Done, SulinaError | None]] = deque()
        """Size, and why the store did not take it."""

    def submit(self, payload: Buffer, done: Done) -> None:
        error: SulinaError | None = self._no_more() if self._broken else None
        if error is None:
            try:
                self._store.submit(self.ledger, self._next, self.lac, payload, self._stored)
                self._next += 1
            except SulinaError as refused:
                self._broken, error = True, refused
        self._under_way.append((len(payload), done, error))
        self._pending_bytes.add(len(payload))
        if error is not None and len(self._under_way) == 1:
            asyncio.get_running_loop().call_soon(self._report_refused)

    def append(self, payload: Buffer) -> asyncio.Future[None]:
        return future_of(partial(self.submit, payload))

    def _stored(self, error: SulinaError | None) -> None:
        """The store reports the first entry without an outcome."""
        size, done, _ = self._under_way.popleft()
        self._pending_bytes.remove(size)
        if error is not None:
            self._broken = self._gap = True
        elif self._gap:
            error = self._no_more()  # durable, but never read after a gap
        else:
            self.lac += 1
        done(error)
        self._report_refused()

    def _report_refused(self) -> None:
        """Report entries that the store did not take, after all that it took before them."""
        while self._under_way and self._under_way[0][2] is not None:
            size, done, error = self._under_way.popleft()
            self._pending_bytes.remove(size)
            done(error)

    def _no_more(self) -> Fenced:
        return Fenced(f"ledger {self.ledger} takes no more appends: one failed; recover it")

    async def close(self) -> int:
        if self._broken:
            raise Fenced(f"ledger {self.ledger} can't be closed: an append failed; recover it")
        return self.lac
