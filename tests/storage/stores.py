"""Entry stores for tests: every backend opened, closed, killed and reopened the same way."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Protocol

from storage_grpc.entries import Entry, EntryStore
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.memory_store import MemoryEntryStore
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.seam import Disk

SMALL = JournalSettings(
    file_bytes=64 << 10,
    reserve_bytes=16 << 10,
    prewrite_after=3,
    spare_bytes=16 << 10,
    group_bytes=16 << 10,
    max_pending_bytes=64 << 10,
    read_bytes=8 << 10,
    open_files=2,
)
"""So small that a few entries take several groups, files and reads."""


async def open_journal(
    disk: Disk, settings: JournalSettings = SMALL, *, seed: int = 1
) -> JournalStore:
    return await JournalStore.open(disk, RealClock(), settings, random.Random(seed))


class Backend(Protocol):
    """Opens a store; after ``close``, ``open`` finds the same data if it is durable."""

    async def open(self) -> EntryStore: ...

    async def close(self) -> None: ...


class MemoryBackend:
    def __init__(self) -> None:
        self._store: MemoryEntryStore | None = None

    async def open(self) -> EntryStore:
        self._store = MemoryEntryStore()
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class JournalBackend:
    """A journal, on a disk in memory or in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory = MemoryDisk()
        self._disk: Disk | None = None
        self._store: JournalStore | None = None

    async def open(self) -> JournalStore:
        self._disk = self._memory if self._folder is None else RealDisk(self._folder)
        self._store = await open_journal(self._disk)
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
        if self._disk is not None:
            await self._disk.close()
        self._store = self._disk = None

    async def reopen(self) -> JournalStore:
        await self.close()
        return await self.open()


async def fill(store: EntryStore, ledger: int, payloads: list[bytes], *, first: int = 0) -> None:
    """Append all entries and wait until they are durable."""
    waiting = []
    for entry, payload in enumerate(payloads, first):
        await store.wait_writable()
        waiting.append(store.append(ledger, entry, entry - 1, payload))
    await asyncio.gather(*waiting)


async def read_all(store: EntryStore, ledger: int, first: int = 0) -> list[Entry]:
    return await store.read(ledger, first, max_entries=1 << 30, max_bytes=1 << 40)


async def payloads(store: EntryStore, ledger: int, first: int = 0) -> list[bytes]:
    return [bytes(entry.payload) for entry in await read_all(store, ledger, first)]
