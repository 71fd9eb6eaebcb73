"""A journal in steady use writes zeros to its next file, and goes on there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from storage_grpc.journal import JournalStore
from storage_grpc.journal.format import DATA_START, file_name
from storage_grpc.journal.next_file import NextFile
from sulina.errors import StorageFailed, StorageFull, SulinaError
from sulina.runtime.memory_disk import MemoryDisk
from tests.storage.stores import SMALL, open_journal, payloads

SECOND = file_name(2)
PREPARED = SMALL.reserve_bytes + SMALL.spare_bytes


async def append(store: JournalStore, count: int, *, size: int = 10) -> list[bytes]:
    """Append entries to ledger 1, each with a write of its own; returns all that it holds."""
    known = store.stat(1)
    first = known.last_entry + 1 if known else 0
    for entry in range(first, first + count):
        await store.append(1, entry, entry - 1, b"%d," % entry * size)
    return [b"%d," % entry * size for entry in range(first + count)]


async def until_there(disk: MemoryDisk, name: str, size: int) -> None:
    """Wait until a file has this size."""
    async with asyncio.timeout(60):
        while name not in await disk.list() or len(disk.content(name)) < size:
            await asyncio.sleep(0.01)


async def test_a_journal_in_steady_use_moves_to_space_that_was_written_before() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await append(store, SMALL.prewrite_after - 1)
    assert SECOND not in await disk.list()
    await append(store, 1)
    await until_there(disk, SECOND, PREPARED)
    assert disk.content(SECOND) == bytes(PREPARED)
    async with asyncio.timeout(60):
        while not disk.content(SECOND)[:DATA_START].strip(b"\0"):
            content = await append(store, 1)
    assert await payloads(store, 1) == content
    killed = disk.copy()
    await store.close()
    for after in (disk, killed):
        store = await open_journal(after)
        assert await payloads(store, 1) == content
        await store.close()


async def test_a_file_that_was_prepared_and_not_used_goes_away_at_the_next_start() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    content = await append(store, SMALL.prewrite_after)
    await until_there(disk, SECOND, PREPARED)
    killed = disk.copy()
    await store.close()
    assert len(disk.content(SECOND)) < PREPARED
    store = await open_journal(disk)
    assert store.recovery.stopped
    assert store.recovery.scanned_files == 0  # also of the file before, which the stop ended
    await store.close()
    store = await open_journal(killed)
    assert store.recovery.files == 1
    assert store.recovery.damaged == ()
    assert SECOND not in await killed.list()
    assert await payloads(store, 1) == content
    await store.close()


class HeldDisk(MemoryDisk):
    """Holds the second piece of zeros until ``go_on``."""

    def __init__(self) -> None:
        super().__init__(before=self._hold)
        self.held, self.go_on = asyncio.Event(), asyncio.Event()
        self._pieces = 0

    async def _hold(self, operation: str, name: str) -> None:
        if (operation, name) == ("write", SECOND):
            self._pieces += 1
            if self._pieces == 2:
                self.held.set()
                await self.go_on.wait()


async def fill_the_file_meanwhile(disk: HeldDisk) -> tuple[JournalStore, asyncio.Task[list[bytes]]]:
    """Append an entry that needs the next file while a piece of zeros is on its way there."""
    store = await open_journal(disk, replace(SMALL, file_bytes=4 << 20, reserve_bytes=2 << 20))
    await append(store, SMALL.prewrite_after)
    async with asyncio.timeout(60):
        await disk.held.wait()
    large = asyncio.create_task(append(store, 1, size=2 << 20))
    for _ in range(10):
        await asyncio.sleep(0)
    return store, large


async def test_the_next_file_is_taken_when_no_more_zeros_are_written_to_it() -> None:
    disk = HeldDisk()
    store, large = await fill_the_file_meanwhile(disk)
    assert not large.done()
    disk.go_on.set()
    content = await large
    assert len(content[-1]) >= 4 << 20
    assert (await payloads(store, 1))[-1] == content[-1]
    await store.close()


async def test_a_file_taken_earlier_loses_what_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def do_not_wait(next_file: NextFile) -> None:
        next_file._stopping.set()

    monkeypatch.setattr(NextFile, "_stop", do_not_wait)
    disk = HeldDisk()
    store, large = await fill_the_file_meanwhile(disk)
    content = await large
    disk.go_on.set()
    async with asyncio.timeout(60):
        while disk.content(SECOND)[1 << 20 : 2 << 20].strip(b"\0"):
            await asyncio.sleep(0.01)
    with pytest.raises(SulinaError):
        await store.read(1, len(content) - 1, max_entries=1, max_bytes=1)
    await store.close()


async def test_on_a_full_disk_the_space_of_the_next_file_takes_appends() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    content = await append(store, SMALL.prewrite_after)
    await until_there(disk, SECOND, PREPARED)
    disk.capacity = sum(len(disk.content(name)) for name in await disk.list())
    promised = store.reserved_bytes
    before = len(content)
    while store.full is None:
        with suppress(StorageFull):
            content = await append(store, 1, size=500)
    taken = sum(len(entry) for entry in content[before:])
    assert taken > promised // 2
    disk.capacity = None
    assert (await append(store, 1))[-1] == (await payloads(store, 1))[-1]
    await store.close()


@pytest.mark.parametrize("operation", ["open", "reserve", "write", "sync", "remove"])
async def test_a_fault_while_the_next_file_is_prepared_stops_no_append(operation: str) -> None:
    disk, met = MemoryDisk(), asyncio.Event()

    async def fail(called: str, name: str) -> None:
        if name == SECOND and called == ("reserve" if operation == "remove" else operation):
            met.set()
            raise StorageFull("no space")
        if name == SECOND and called == operation:
            raise StorageFailed("cannot remove")

    disk.before = fail
    store = await open_journal(disk)
    await append(store, SMALL.prewrite_after)
    async with asyncio.timeout(60):
        await met.wait()
    content = await append(store, 20)
    disk.before = None
    assert await payloads(store, 1) == content
    content = await append(store, 1, size=20 << 10)
    assert (await payloads(store, 1))[-1] == content[-1]
    await store.close()
    store = await open_journal(disk)
    assert store.recovery.damaged == ()
    await store.close()
