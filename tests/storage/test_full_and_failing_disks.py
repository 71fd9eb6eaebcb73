"""A full disk refuses appends for a while, a failing one until a restart; reads continue."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage_grpc.journal import JournalSettings, JournalStore
from sulina.errors import Fenced, NotFound, Overloaded, StorageFailed, StorageFull
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import SMALL, fill, open_journal, payloads


async def give_way(operation: str, name: str) -> None:
    """A slow disk, so that other tasks run during its calls."""
    await asyncio.sleep(0)


async def append_until_full(store: JournalStore, ledger: int, size: int) -> list[bytes]:
    """Append entries until one is refused; returns those that were stored."""
    content: list[bytes] = []
    try:
        while True:
            payload = os.urandom(size)
            await store.append(ledger, len(content), len(content) - 1, payload)
            content.append(payload)
    except StorageFull:
        return content


async def test_a_full_disk_refuses_appends_and_goes_on_when_there_is_space() -> None:
    disk = MemoryDisk(capacity=300_000)
    store = await open_journal(disk)
    content = await append_until_full(store, 1, 2000)
    assert len(content) > 100
    for _ in range(3):
        with pytest.raises(StorageFull, match="space"):
            await store.append(1, len(content), len(content) - 1, b"x" * 2000)
    assert store.ledgers() == [1]
    assert await payloads(store, 1) == content
    disk.capacity = 600_000
    await fill(store, 1, [b"again"] * 20, first=len(content))
    assert await payloads(store, 1) == content + [b"again"] * 20
    await store.close()
    store = await open_journal(disk)
    assert not store.unclean
    assert await payloads(store, 1) == content + [b"again"] * 20
    await store.close()


async def has_space(store: JournalStore) -> None:
    async with asyncio.timeout(60):
        while store.full is not None:
            await asyncio.sleep(0.05)


async def test_a_full_journal_says_so_once_and_notices_space_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk(capacity=300_000)
    store = await open_journal(disk)
    content = await append_until_full(store, 1, 2000)
    for _ in range(3):
        with pytest.raises(StorageFull):
            await store.append(1, len(content), len(content) - 1, b"x" * 2000)
    assert "no space is left" in str(store.full)
    assert store.refused_full == 4
    assert len(caplog.records) == 1
    assert "the journal refuses appends until there is space" in caplog.text
    disk.capacity = 600_000
    await has_space(store)
    async with asyncio.timeout(60):
        while "the journal has space again" not in caplog.text:
            await asyncio.sleep(0.05)
    await fill(store, 1, [b"again"] * 20, first=len(content))
    assert await payloads(store, 1) == content + [b"again"] * 20
    await store.close()


async def test_a_journal_that_starts_without_space_says_so() -> None:
    disk = MemoryDisk(capacity=100)
    store = await open_journal(disk)
    assert "space" in str(store.full)
    disk.capacity = None
    await has_space(store)
    await fill(store, 1, [b"taken"])
    await store.close()


async def test_deleting_a_ledger_on_a_full_disk_makes_space() -> None:
    disk = MemoryDisk(capacity=400_000)
    store = await open_journal(disk)
    assert len(await append_until_full(store, 1, 2000)) > 100
    await store.fence(1)
    await store.delete(1)
    entry = 0
    while entry < 50:
        try:
            await store.append(2, entry, entry - 1, b"y" * 2000)
            entry += 1
        except StorageFull:
            await asyncio.sleep(0)  # until the files are gone
    assert await payloads(store, 2) == [b"y" * 2000] * 50
    with pytest.raises(NotFound):
        await store.append(1, 0, -1, b"late")
    await store.close()


@pytest.mark.parametrize("fits", [0, 10, 64, 5000, 30_000])
async def test_what_a_full_disk_refused_does_not_come_back(fits: int) -> None:
    """Even if reserved space is not guaranteed and a write stops halfway."""
    disk = MemoryDisk()
    settings = JournalSettings(group_bytes=1 << 20, reserve_bytes=1 << 20)
    store = await open_journal(disk, settings)
    await fill(store, 1, [b"kept"] * 3)
    disk.write_limit = fits
    results = await asyncio.gather(
        *(store.append(1, entry, entry - 1, b"refused" * 300) for entry in range(3, 30)),
        return_exceptions=True,
    )
    assert {type(result) for result in results} == {StorageFull}
    disk.write_limit = None
    killed = disk.copy()
    await store.append(1, 3, 2, b"another fourth entry")
    assert await payloads(store, 1) == [b"kept"] * 3 + [b"another fourth entry"]
    await store.close()
    store = await open_journal(killed)
    assert await payloads(store, 1) == [b"kept"] * 3
    await store.close()


async def test_all_entries_that_wait_fail_together_on_a_full_disk() -> None:
    disk = MemoryDisk(capacity=68_000)
    store = await open_journal(disk)
    results = await asyncio.gather(
        *(store.append(1, entry, entry - 1, b"x" * 2000) for entry in range(32)),
        return_exceptions=True,
    )
    refused = [isinstance(result, StorageFull) for result in results]
    assert set(refused) == {True, False}
    assert refused == sorted(refused)
    assert len(await payloads(store, 1)) == refused.index(True)
    assert store.pending_bytes == 0
    await store.close()


async def test_a_fence_behind_refused_entries_still_finds_space() -> None:
    disk = MemoryDisk(capacity=68_000, before=give_way)
    store = await open_journal(disk)
    appends = [store.append(1, entry, entry - 1, b"x" * 2000) for entry in range(32)]
    fence, delete = asyncio.ensure_future(store.fence(2)), asyncio.ensure_future(store.delete(3))
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert any(isinstance(result, StorageFull) for result in results)
    assert await fence == -1
    await delete
    await store.close()
    store = await open_journal(disk)
    with pytest.raises(Fenced):
        await store.append(2, 0, -1, b"late")
    with pytest.raises(NotFound):
        await store.append(3, 0, -1, b"late")
    await store.close()


async def test_a_start_without_space_for_a_file_is_not_taken_for_a_loss_later() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 1000] * 10)
    killed = disk.copy()
    await store.close()
    for room in (0, 2000, 10_000):
        tight = killed.copy()
        [name] = await tight.list()
        tight.capacity = len(tight.content(name).rstrip(b"\0")) + room
        for _ in range(2):
            store = await open_journal(tight)
            assert len(await payloads(store, 1)) == 10
            assert store.recovery.damaged == ()
            await store.close()
        tight.capacity = None
        store = await open_journal(tight)
        assert store.recovery.damaged == ()
        await store.append(1, 10, 9, b"space")
        await store.close()


async def test_a_journal_on_a_full_disk_opens_for_reads() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 1000] * 100)
    await store.close()
    disk.capacity = 0
    store = await open_journal(disk)
    assert len(await payloads(store, 1)) == 100
    with pytest.raises(StorageFull):
        await store.append(1, 100, 99, b"no space")
    with pytest.raises(StorageFull):
        await store.fence(1)
    assert store.stat(2) is None
    disk.capacity = None
    await store.append(1, 100, 99, b"space")
    await store.fence(1)
    await store.close()
    store = await open_journal(disk)
    assert not store.unclean
    assert (await payloads(store, 1))[-1] == b"space"
    with pytest.raises(Fenced):
        await store.append(1, 101, 100, b"late")
    await store.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_after_a_disk_error_appends_fail_until_a_restart(operation: str) -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"kept"] * 5)
    calls = 0

    async def fail_once(called: str, name: str) -> None:
        nonlocal calls
        if called == operation:
            calls += 1
            if calls == 1:
                raise StorageFailed(f"cannot {called} {name}: Input/output error")

    disk.before = fail_once
    results = await asyncio.gather(
        *(store.append(1, n, n - 1, b"lost") for n in range(5, 9)), return_exceptions=True
    )
    assert all(isinstance(result, StorageFailed) for result in results)
    with pytest.raises(StorageFailed, match="restart the node"):
        await store.append(1, 5, 4, b"refused")
    with pytest.raises(StorageFailed):
        await store.fence(1)
    with pytest.raises(StorageFailed):
        await store.delete(1)
    await store.wait_writable()
    assert await payloads(store, 1) == [b"kept"] * 5
    await store.close()
    assert calls == 1
    disk.before = None
    store = await open_journal(disk)
    assert store.unclean
    assert (await payloads(store, 1))[:5] == [b"kept"] * 5
    await store.append(2, 0, -1, b"goes on")
    await store.close()


async def test_an_overfull_queue_refuses_appends_until_there_is_room() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    go_on = asyncio.Event()

    async def hold(operation: str, _: str) -> None:
        if operation == "sync":
            await go_on.wait()

    disk.before = hold
    entry = 0
    while store.pending_bytes < SMALL.max_pending_bytes:
        store.append(1, entry, -1, b"x" * 4000)
        entry += 1
    with pytest.raises(Overloaded):
        await store.append(1, entry, -1, b"x" * 4000)
    assert SMALL.max_pending_bytes <= store.pending_bytes < SMALL.max_pending_bytes + 4000
    room = asyncio.ensure_future(store.wait_writable())
    await asyncio.sleep(0)
    assert not room.done()
    go_on.set()
    await room
    assert store.pending_bytes <= SMALL.max_pending_bytes // 2
    await store.append(1, entry, -1, b"x")
    assert len(await payloads(store, 1)) == entry + 1
    await store.close()


async def test_an_append_whose_caller_gave_up_disturbs_nobody() -> None:
    store = await open_journal(MemoryDisk())
    first = store.append(1, 0, -1, b"a")
    first.cancel()
    await store.append(1, 1, 0, b"b")
    assert await payloads(store, 1) == [b"a", b"b"]
    await store.close()


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MiB, if the tests may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
async def small_disk(small_file_system: Path) -> AsyncIterator[RealDisk]:
    disk = RealDisk(small_file_system)
    yield disk
    await disk.close()


async def test_a_full_real_file_system_refuses_appends_and_recovers(
    small_disk: RealDisk, small_file_system: Path
) -> None:
    ballast = small_file_system / "ballast"
    ballast.write_bytes(bytes(512 << 10))
    store = await open_journal(small_disk)
    content = await append_until_full(store, 1, 3000)
    assert len(content) > 300
    with pytest.raises(StorageFull, match=str(small_file_system)):
        await store.append(1, len(content), len(content) - 1, b"x" * 3000)
    assert await payloads(store, 1) == content
    ballast.unlink()
    await store.append(1, len(content), len(content) - 1, b"x" * 3000)
    await store.close()
    store = await open_journal(small_disk)
    assert await payloads(store, 1) == [*content, b"x" * 3000]
    await store.close()
