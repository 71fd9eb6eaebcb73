"""Damaged journals: never wrong bytes, and never "no such entry" for one that was durable."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from storage_grpc.journal import JournalStore
from storage_grpc.journal.format import (
    DATA_START,
    FileHeader,
    RecordKind,
    pack_header,
    pack_image,
    record_size,
)
from sulina.errors import CorruptEntry, Fenced, NotFound
from sulina.runtime.memory_disk import MemoryDisk
from tests.storage.stores import fill, open_journal, payloads

CONTENT = {1: [b"one zero", b"one one!!", b"one two"], 2: [b"two zero", b"two one" * 9]}
FIRST = "journal-0000000000000001.log"


async def journal_with_history(*, close: bool) -> MemoryDisk:
    """Two ledgers, a fenced one, a deleted one; every record in its own group."""
    disk = MemoryDisk()
    store = await open_journal(disk)
    await store.fence(3)
    await fill(store, 4, [b"deleted"])
    await store.delete(4)
    for ledger, contents in CONTENT.items():
        for entry, payload in enumerate(contents):
            await store.append(ledger, entry, entry - 1, payload)
    if close:
        await store.close()
        return disk
    # A last entry proves that all before it were durable.
    await store.append(5, 0, -1, b"last")
    killed = disk.copy()
    await store.close()
    return killed


async def check_nothing_is_wrong(store: JournalStore) -> int:
    """Every durable entry has its bytes or is called corrupt; returns how many are corrupt."""
    corrupt = 0
    for ledger, contents in CONTENT.items():
        for entry, payload in enumerate(contents):
            try:
                [found] = await store.read(ledger, entry, max_entries=1, max_bytes=1)
                assert bytes(found.payload) == payload
                assert found.lac == entry - 1
            except CorruptEntry:
                corrupt += 1
    with pytest.raises(Fenced):
        await store.append(3, 0, -1, b"late")
    with pytest.raises(NotFound):
        await store.append(4, 1, 0, b"late")
    return corrupt


def interesting(content: bytes) -> Iterable[int]:
    """Every byte of headers, images and payloads; and of the long zeros one in 61."""
    for position, byte in enumerate(content.rstrip(b"\0")):
        if byte or position % 61 == 0 or any(content[max(0, position - 16) : position]):
            yield position


async def test_one_flipped_bit_anywhere_in_a_killed_journal_spoils_at_most_one_entry() -> None:
    disk = await journal_with_history(close=False)
    content = disk.content(FIRST)
    for position in interesting(content):
        damaged = disk.copy()
        damaged.flip(FIRST, position, position % 8)
        store = await open_journal(damaged)
        # Each record has two images, so it is always known what was hit.
        assert store.recovery.damaged == ()
        assert await check_nothing_is_wrong(store) <= 1
        await store.close()
        again = await open_journal(damaged)
        assert await check_nothing_is_wrong(again) <= 1
        await again.close()


@pytest.mark.parametrize("with_index_file", [True, False])
async def test_one_flipped_bit_anywhere_in_a_closed_journal_spoils_at_most_one_entry(
    with_index_file: bool,
) -> None:
    disk = await journal_with_history(close=True)
    if not with_index_file:
        await disk.remove(FIRST.replace(".log", ".idx"))
    for position in interesting(disk.content(FIRST)):
        damaged = disk.copy()
        damaged.flip(FIRST, position, position % 8)
        store = await open_journal(damaged)
        assert await check_nothing_is_wrong(store) <= 1
        await store.close()


async def test_a_flipped_bit_in_an_index_file_only_costs_a_scan() -> None:
    disk = await journal_with_history(close=True)
    name = FIRST.replace(".log", ".idx")
    for position in range(len(disk.content(name))):
        damaged = disk.copy()
        damaged.flip(name, position, position % 8)
        store = await open_journal(damaged)
        assert store.recovery.scanned_files == 1
        assert not store.unclean
        assert await check_nothing_is_wrong(store) == 0
        await store.close()


async def test_an_index_file_cut_anywhere_only_costs_a_scan() -> None:
    disk = await journal_with_history(close=True)
    name = FIRST.replace(".log", ".idx")
    for size in range(len(disk.content(name))):
        damaged = disk.copy()
        damaged.cut(name, size)
        store = await open_journal(damaged)
        assert await check_nothing_is_wrong(store) == 0
        await store.close()


@pytest.mark.parametrize("garbage", [b"\0", b"\xa5"])
async def test_a_lost_block_in_the_middle_never_makes_an_entry_absent(garbage: bytes) -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    contents = [bytes([i]) * (300 * (i % 40) + 1) for i in range(1, 60)]
    for entry, payload in enumerate(contents):
        await store.append(1, entry, entry - 1, payload)
    await store.close()
    names = [name for name in await disk.list() if name.endswith(".log")]
    assert len(names) > 4
    for name in names:
        size = len(disk.content(name))
        for block in range(0, size, 4096):
            for without_index in (True, False):
                damaged = disk.copy()
                end = min(size, block + 4096)
                content = bytearray(disk.content(name))
                content[block:end] = garbage * (end - block)
                await damaged.replace(name, bytes(content))
                if without_index:
                    await damaged.remove(name.replace(".log", ".idx"))
                after = await open_journal(damaged)
                good = 0
                for entry, payload in enumerate(contents):
                    try:
                        [found] = await after.read(1, entry, max_entries=1, max_bytes=1)
                        assert bytes(found.payload) == payload
                        good += 1
                    except CorruptEntry:
                        pass
                assert good >= len(contents) - 8
                await after.close()


async def test_while_damage_is_unidentified_nothing_is_called_absent() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    for entry in range(10):
        await store.append(1, entry, entry - 1, b"small")
    killed = disk.copy()
    await store.close()
    start = DATA_START + 2 * record_size(12)
    for position in range(start + 2 * record_size(5), start + 4 * record_size(5)):
        killed.flip(FIRST, position)
    for _ in range(3):
        after = await open_journal(killed)
        assert after.unclean
        [damaged] = after.recovery.damaged
        assert (damaged.file, damaged.end - damaged.start) == (1, 2 * record_size(5))
        assert await payloads(after, 1) == [b"small"] * 2
        assert await payloads(after, 1, 4) == [b"small"] * 6
        for ledger, entry in ((1, 2), (1, 3), (7, 0)):
            with pytest.raises(CorruptEntry, match="replace this one"):
                await after.read(ledger, entry, max_entries=1, max_bytes=1)
        # A fence may have been in the damaged range too.
        with pytest.raises(Fenced):
            await after.append(1, 10, 9, b"late")
        await after.close()
    after = await open_journal(killed)
    await after.append(1, 2, 1, b"small", recovery=True)
    assert await payloads(after, 1) == [b"small"] * 3
    await after.append(8, 0, -1, b"new ledgers are welcome")
    await after.close()


async def test_a_damaged_entry_is_repaired_by_writing_it_again() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"entry %d" % i for i in range(5)])
    await store.close()
    disk.flip(FIRST, disk.content(FIRST).index(b"entry 2"))
    for _ in range(2):
        store = await open_journal(disk)
        if store.recovery.files == 1:
            with pytest.raises(CorruptEntry):
                await payloads(store, 1, 2)
            assert await payloads(store, 1) == [b"entry 0", b"entry 1"]
            await store.append(1, 2, 1, b"entry 2")
        assert await payloads(store, 1) == [b"entry %d" % i for i in range(5)]
        stat = store.stat(1)
        assert stat is not None
        assert stat.bytes == 5 * len(b"entry 0")
        await store.close()


@pytest.mark.parametrize("which", [0, 1, -2, -1])
async def test_a_lost_file_never_makes_an_entry_absent(which: int) -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    contents = [b"%03d" % i * 300 for i in range(250)]
    await fill(store, 1, contents)
    killed = disk.copy()
    await store.close()
    names = [name for name in await killed.list() if name.endswith(".log")]
    await killed.remove(names[which])
    for _ in range(2):
        after = await open_journal(killed)
        assert after.unclean
        assert len(after.recovery.damaged) == 1
        lost = 0
        for entry, payload in enumerate(contents):
            try:
                [found] = await after.read(1, entry, max_entries=1, max_bytes=1)
                assert bytes(found.payload) == payload
            except CorruptEntry:
                lost += 1
        assert 0 < lost < 100
        # A fence may have been in the newest file; newer files repeat those of older ones.
        stat = after.stat(1)
        assert stat is not None
        assert stat.fenced == (which == -1)
        await after.close()


async def test_a_shortened_older_file_never_makes_an_entry_absent() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    contents = [b"%03d" % i * 300 for i in range(100)]
    await fill(store, 1, contents)
    await store.close()
    size = len(disk.content(FIRST))
    for keep in (0, 5000, DATA_START, size // 2, size - 1):
        for without_index in (True, False):
            damaged = disk.copy()
            damaged.cut(FIRST, keep)
            if without_index:
                await damaged.remove(FIRST.replace(".log", ".idx"))
            after = await open_journal(damaged)
            for entry, payload in enumerate(contents):
                try:
                    [found] = await after.read(1, entry, max_entries=1, max_bytes=1)
                    assert bytes(found.payload) == payload
                except CorruptEntry:
                    assert entry < 70
            await after.close()


async def test_a_payload_that_looks_like_a_journal_is_not_taken_for_one() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"target"])
    stolen = disk.content(FIRST).rstrip(b"\0")
    other = MemoryDisk()
    twin = await open_journal(other, seed=2)
    for entry, payload in enumerate((stolen, b"after", b"proof")):
        await twin.append(9, entry, entry - 1, payload)
    killed = other.copy()
    # Both images of the surrounding record are damaged, so the search scans the payload.
    start = other.content(FIRST).index(stolen)
    for position in (start - 10, start + len(stolen) + 20):
        killed.flip(FIRST, position)
    after = await open_journal(killed)
    assert after.ledgers() == [9]
    assert await payloads(after, 9, 1) == [b"after", b"proof"]
    for opened in (store, twin, after):
        await opened.close()


async def test_a_damaged_record_that_claims_to_be_long_does_not_make_its_file_longer() -> None:
    header = pack_header(FileHeader(1, 7, bytes(16)))
    # Its ``synced`` position proves that it was durable, so it is damage and not a torn tail.
    image = pack_image(RecordKind.ENTRY, 7, DATA_START, DATA_START + 8, 1, 0, -1, 1 << 26, 0)
    disk = MemoryDisk()
    await disk.replace(FIRST, header + image)
    store = await open_journal(disk)
    assert len(disk.content(FIRST)) == len(header + image)
    with pytest.raises(CorruptEntry):
        await payloads(store, 1)
    await store.close()


async def test_a_record_with_an_invalid_number_is_damage() -> None:
    header = pack_header(FileHeader(1, 7, bytes(16)))
    bad = pack_image(RecordKind.ENTRY, 7, DATA_START, DATA_START, 1, -1, -1, 0, 0)
    at = DATA_START + 2 * len(bad)
    good = pack_image(RecordKind.ENTRY, 7, at, at, 2, 0, -1, 0, 0)
    disk = MemoryDisk()
    await disk.replace(FIRST, header + bad * 2 + good * 2)
    store = await open_journal(disk)
    assert store.recovery.damaged
    assert await payloads(store, 2) == [b""]
    await store.close()
    store = await open_journal(disk)
    assert store.ledgers() == [2]
    await store.close()
