"""An entry store in memory: nothing survives the process.

For tests. Appends are done immediately, and nothing is ever pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from storage_grpc.entries import (
    Entry,
    LedgerStat,
    absent,
    check_ids,
    deleted,
    fenced,
    other_bytes,
    payload_buffers,
)
from storage_grpc.outcomes import Done, future_of
from sulina.errors import Closed, Refused, StorageFull
from sulina.runtime.seam import Buffer

MAX_ENTRY_BYTES = 64 << 20


@dataclass(slots=True)
class _Ledger:
    entries: dict[int, Entry] = field(default_factory=dict)
    lac: int = -1
    fenced: bool = False
    bytes: int = 0


class MemoryEntryStore:
    """``EntryStore`` in memory. The ids of deleted ledgers are kept."""

    def __init__(self) -> None:
        self._ledgers: dict[int, _Ledger] = {}
        self._deleted: set[int] = set()
        self._closed = False
        self.full: StorageFull | None = None

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
        refusal = self._store(ledger, entry, lac, payload, recovery=recovery)
        asyncio.get_running_loop().call_soon(done, refusal)

    def append(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        *,
        recovery: bool = False,
    ) -> asyncio.Future[None]:
        refusal = self._store(ledger, entry, lac, payload, recovery=recovery)
        return future_of(lambda done: done(refusal))

    def _store(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        *,
        recovery: bool,
    ) -> Refused | None:
        """Store an entry; returns why it is refused. Raises as ``submit``."""
        self._check_open()
        check_ids(ledger, entry, lac)
        buffers, length = payload_buffers(payload, MAX_ENTRY_BYTES)
        if ledger in self._deleted:
            raise deleted(ledger)
        known = self._ledgers.get(ledger) or _Ledger()
        if known.fenced and not recovery:
            raise fenced(ledger)
        content = b"".join(buffers)
        stored = known.entries.get(entry)
        if stored is not None:
            return None if stored.payload == content else other_bytes(ledger, entry)
        known.entries[entry] = Entry(ledger, entry, lac, content)
        known.lac = max(known.lac, lac)
        known.bytes += length
        self._ledgers[ledger] = known
        return None

    async def read(
        self,
        ledger: int,
        first: int,
        *,
        max_entries: int,
        max_bytes: int,
        head: int | None = None,
    ) -> list[Entry]:
        self._check_open()
        known = self._ledgers.get(ledger)
        found: list[Entry] = []
        size = 0
        while known is not None and len(found) < max(1, max_entries):
            stored = known.entries.get(first + len(found))
            if stored is None:
                break
            payload = stored.payload if head is None else stored.payload[:head]
            size += len(payload)
            if found and size > max_bytes:
                break
            found.append(
                stored if head is None else Entry(ledger, stored.entry, stored.lac, payload)
            )
        if not found:
            raise absent(ledger, first)
        return found

    async def fence(self, ledger: int) -> int:
        self._check_open()
        check_ids(ledger, 0, -1)
        if ledger in self._deleted:
            raise deleted(ledger)
        known = self._ledgers.setdefault(ledger, _Ledger())
        known.fenced = True
        return known.lac

    async def delete(self, ledger: int) -> None:
        self._check_open()
        check_ids(ledger, 0, -1)
        self._ledgers.pop(ledger, None)
        self._deleted.add(ledger)

    def stat(self, ledger: int) -> LedgerStat | None:
        known = self._ledgers.get(ledger)
        if known is None:
            return None
        first = last_before_gap = min(known.entries, default=-1)
        while last_before_gap + 1 in known.entries:
            last_before_gap += 1
        return LedgerStat(
            first_entry=first,
            last_entry=max(known.entries, default=-1),
            last_before_gap=last_before_gap,
            lac=known.lac,
            fenced=known.fenced,
            bytes=known.bytes,
        )

    def ledgers(self) -> list[int]:
        return sorted(self._ledgers)

    @property
    def pending_bytes(self) -> int:
        return 0

    async def wait_writable(self) -> None:
        """Returns at once: nothing is ever pending."""

    async def close(self) -> None:
        self._closed = True
        self._ledgers.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the entry store was closed")
