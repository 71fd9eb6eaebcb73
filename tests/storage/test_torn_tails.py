"""A journal cut anywhere in its last entries keeps everything before the cut."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from storage_grpc.journal import JournalStore
from storage_grpc.journal.format import record_size
from sulina.errors import NotFound
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import SMALL, fill, open_journal, payloads

ONE_FILE = replace(SMALL, prewrite_after=0)
CONTENT = [b"first entry", b"second", b"the third entry", b"4th", b"the fifth and last one"]
ENDS = [sum(record_size(len(c)) for c in CONTENT[i + 1 :]) for i in range(len(CONTENT))]
"""Distance of the end of each entry from the end of the records."""


async def check(store: JournalStore, cut: int, end: int) -> None:
    """Every entry before the cut is present and correct, and the journal takes appends."""
    acknowledged = sum(1 for behind in ENDS if end - behind <= cut)
    found = await payloads(store, 1) if acknowledged else []
    assert found == CONTENT[: len(found)]
    assert len(found) >= acknowledged
    assert store.recovery.damaged == ()
    with pytest.raises(NotFound):
        await store.read(1, len(found), max_entries=1, max_bytes=1)
    await store.append(1, len(found), len(found) - 1, b"goes on")
    assert await payloads(store, 1) == [*found, b"goes on"]


async def test_a_real_file_cut_at_every_byte_of_its_last_entries_keeps_what_was_before(
    tmp_path: Path,
) -> None:
    original = tmp_path / "original"
    disk = RealDisk(original)
    store = await open_journal(disk, ONE_FILE)
    for entry, payload in enumerate(CONTENT):
        await store.append(1, entry, entry - 1, payload)
    killed = tmp_path / "killed"
    shutil.copytree(original, killed)
    await store.close()
    end = max(original.glob("*.log")).stat().st_size - record_size(4096)  # the mark of the stop
    await disk.close()
    for cut in range(end - ENDS[2], end + 1):
        folder = tmp_path / "cut"
        shutil.copytree(killed, folder)
        [file] = folder.glob("*.log")
        with file.open("r+b") as opened:
            opened.truncate(cut)
        disk = RealDisk(folder)
        store = await open_journal(disk)
        assert store.unclean
        await check(store, cut, end)
        await store.close()
        await disk.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("rest", [b"\0", b"\xff", b"\x53\x4a\x01\x00garbage"])
async def test_whatever_follows_the_cut_is_not_taken_for_entries(rest: bytes) -> None:
    disk = MemoryDisk()
    store = await open_journal(disk, ONE_FILE)
    await fill(store, 2, [b"a ledger of its own"])
    for entry, payload in enumerate(CONTENT):
        await store.append(1, entry, entry - 1, payload)
    [name] = await disk.list()
    content = disk.content(name)
    end = len(content.rstrip(b"\0"))
    for cut in range(end - ENDS[1], end + 1):
        damaged = MemoryDisk()
        tail = (rest * len(content))[: len(content) - cut]
        await damaged.replace(name, content[:cut] + tail)
        after = await open_journal(damaged)
        await check(after, cut, end)
        assert await payloads(after, 2) == [b"a ledger of its own"]
        await after.close()
        again = await open_journal(damaged)
        assert not again.unclean
        assert (await payloads(again, 1))[-1] == b"goes on"
        await again.close()
    await store.close()


async def test_a_torn_tail_is_reported_and_cut_for_good() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk, ONE_FILE)
    for entry, payload in enumerate(CONTENT):
        await store.append(1, entry, entry - 1, payload)
    [name] = await disk.list()
    torn = disk.copy()
    end = len(disk.content(name).rstrip(b"\0"))
    torn.flip(name, end - record_size(len(CONTENT[-1])) + 70)
    after = await open_journal(torn)
    assert after.unclean
    assert after.recovery.cut_bytes == record_size(len(CONTENT[-1]))
    assert len(torn.content(name)) == end - record_size(len(CONTENT[-1]))
    assert await payloads(after, 1) == CONTENT[:-1]
    await after.append(1, 4, 3, b"another fifth entry")
    await after.close()
    again = await open_journal(torn)
    assert await payloads(again, 1) == [*CONTENT[:-1], b"another fifth entry"]
    await again.close()
    await store.close()


async def test_a_file_that_was_never_begun_is_removed() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk, ONE_FILE)
    await fill(store, 1, CONTENT)
    await store.close()
    for content in (b"", bytes(100), bytes(20_000), b"\xff" * 5000):
        begun = disk.copy()
        await begun.replace("journal-0000000000000002.log", content)
        after = await open_journal(begun)
        assert not after.unclean
        assert await payloads(after, 1) == CONTENT
        assert "journal-0000000000000002.log" not in await begun.list()
        await after.close()
