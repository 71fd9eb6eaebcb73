"""What a journal remembers when it is opened again, and its index against a plain dictionary."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_grpc.entries import LedgerStat
from storage_grpc.journal import JournalSettings
from storage_grpc.journal.runs import EntryRun, EntryRuns
from sulina.errors import Fenced, NotFound, Refused
from sulina.runtime.memory_disk import MemoryDisk, MemoryDiskFile
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import SMALL, JournalBackend, fill, open_journal, payloads, read_all


async def test_everything_is_there_after_a_clean_stop(journal: JournalBackend) -> None:
    store = await journal.open()
    assert not store.unclean
    content = [b"%d" % i * 200 for i in range(300)]
    await fill(store, 1, content)
    await fill(store, 2, [b"other"], first=5)
    incarnation = store.incarnation
    store = await journal.reopen()
    assert await payloads(store, 1) == content
    assert await payloads(store, 2, 5) == [b"other"]
    assert store.stat(2) == LedgerStat(5, 5, 5, 4, False, 5)
    assert store.ledgers() == [1, 2]
    assert not store.unclean
    assert store.recovery.scanned_files == 0
    assert store.incarnation == incarnation
    assert len(incarnation) == 32


async def test_appends_that_were_not_awaited_are_durable_after_close(
    journal: JournalBackend,
) -> None:
    store = await journal.open()
    waiting = [store.append(1, entry, entry - 1, b"x" * 50) for entry in range(100)]
    store = await journal.reopen()
    assert all(done.done() for done in waiting)
    assert len(await read_all(store, 1)) == 100


async def test_fences_and_deletes_outlive_many_restarts(journal: JournalBackend) -> None:
    store = await journal.open()
    await fill(store, 1, [b"a", b"b"])
    await fill(store, 2, [b"a", b"b"])
    await store.fence(1)
    await store.fence(3)
    await store.delete(2)
    for _ in range(4):
        store = await journal.reopen()
        assert store.ledgers() == [1, 3]
        assert await store.fence(1) == 0
        for ledger in (1, 3):
            with pytest.raises(Fenced):
                await store.append(ledger, 9, -1, b"late")
        with pytest.raises(NotFound):
            await store.append(2, 9, -1, b"late")


async def test_an_entry_sent_again_after_a_restart_is_compared(journal: JournalBackend) -> None:
    store = await journal.open()
    await fill(store, 1, [b"a", b"b"])
    store = await journal.reopen()
    await store.append(1, 1, 0, b"b")
    with pytest.raises(Refused, match="other bytes"):
        await store.append(1, 0, -1, b"z")
    await store.append(1, 2, 1, b"c")
    assert await payloads(store, 1) == [b"a", b"b", b"c"]


async def test_a_full_scan_finds_the_same_as_the_index_files() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    for entry in range(200):
        await asyncio.gather(*(store.append(n, entry, entry - 1, b"x" * 300) for n in range(3)))
    await store.fence(0)
    await store.close()
    scanned = disk.copy()
    for name in await scanned.list():
        if name.endswith(".idx"):
            await scanned.remove(name)
    first, second = await open_journal(disk), await open_journal(scanned)
    assert first.recovery.scanned_files == 0
    assert second.recovery.scanned_files == second.recovery.files > 2
    assert not second.unclean
    for ledger in range(3):
        assert first.stat(ledger) == second.stat(ledger)
        assert await payloads(first, ledger) == await payloads(second, ledger)
    for store in (first, second):
        await store.close()


async def test_a_file_goes_when_every_ledger_in_it_is_deleted() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 1000] * 200)
    await fill(store, 2, [b"kept"])
    await fill(store, 3, [b"y" * 1000] * 200)
    many = len(await disk.list())
    await store.delete(1)
    await store.delete(3)
    await store.close()
    store = await open_journal(disk)
    await store.close()
    assert len(await disk.list()) < many // 2
    store = await open_journal(disk)
    assert not store.unclean
    assert await payloads(store, 2) == [b"kept"]
    for ledger in (1, 3):
        with pytest.raises(NotFound, match="deleted"):
            await store.append(ledger, 0, -1, b"late")
    await store.close()


async def test_space_comes_back_while_the_journal_runs() -> None:
    disk = MemoryDisk()
    removed = asyncio.Event()

    async def watch(operation: str, _: str) -> None:
        if operation == "remove":
            removed.set()

    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 1000] * 300)
    disk.before = watch
    await store.delete(1)
    await removed.wait()
    await store.close()


async def test_a_read_that_is_under_way_survives_the_removal_of_its_file() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 1000] * 100)
    reading, removed = asyncio.Event(), asyncio.Event()

    async def slow_read(operation: str, _: str) -> None:
        if operation == "read" and not reading.is_set():
            reading.set()
            await removed.wait()
        if operation == "remove":
            removed.set()

    disk.before = slow_read
    read = asyncio.ensure_future(store.read(1, 0, max_entries=5, max_bytes=1 << 20))
    await reading.wait()
    await store.delete(1)
    assert [bytes(entry.payload) for entry in await read] == [b"x" * 1000] * 5
    await store.close()


@pytest.mark.parametrize("with_index_files", [True, False])
async def test_old_tombstones_are_forgotten_only_when_no_file_has_their_entries(
    with_index_files: bool,
) -> None:
    disk = MemoryDisk()
    settings = JournalSettings(
        file_bytes=64 << 10, reserve_bytes=16 << 10, spare_bytes=0, tombstones=2
    )
    store = await open_journal(disk, settings)
    await fill(store, 100, [b"in the same file as the next, which stays"])
    await fill(store, 101, [b"stays"])
    await store.delete(100)
    for ledger in range(10):
        await store.delete(ledger)
    await store.close()
    for newer in range(200, 206):
        if not with_index_files:
            for name in await disk.list():
                if name.endswith(".idx"):
                    await disk.remove(name)
        store = await open_journal(disk, settings)
        assert store.ledgers() == [101]
        with pytest.raises(NotFound):
            await store.append(100, 0, -1, b"late")
        await store.delete(newer)
        await store.close()
    store = await open_journal(disk, settings)
    await store.append(0, 0, -1, b"so long ago that nobody remembers")
    await store.close()


async def test_no_more_files_are_open_than_allowed_and_none_stays_open() -> None:
    opened: list[str] = []

    class CountingDisk(MemoryDisk):
        async def open(self, name: str, *, create: bool = False) -> MemoryDiskFile:
            file = await super().open(name, create=create)
            opened.append(name)
            return CountedFile(self, name, file._content)

    class CountedFile(MemoryDiskFile):
        async def close(self) -> None:
            opened.remove(self.name)

    disk = CountingDisk()
    store = await open_journal(disk)
    content = [b"x" * 1000] * 500
    await fill(store, 1, content)
    assert len(await disk.list()) > 8
    await asyncio.gather(*(store.read(1, n, max_entries=1, max_bytes=1) for n in range(500)))
    assert len(opened) <= SMALL.open_files + 1

    async def give_way(operation: str, name: str) -> None:
        for _ in range(5 if operation == "read" else 1):
            await asyncio.sleep(0)

    disk.before = give_way
    reads = [asyncio.ensure_future(payloads(store, 1, n)) for n in range(0, 500, 50)]
    await store.delete(1)
    await asyncio.gather(*reads, return_exceptions=True)
    await store.close()
    assert opened == []


async def test_a_stop_without_close_is_unclean_and_loses_nothing() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    await fill(store, 1, [b"x" * 700] * 150)
    after = await open_journal(disk.copy())
    assert after.unclean
    assert after.recovery.cut_bytes == 0
    assert after.recovery.damaged == ()
    assert await payloads(after, 1) == [b"x" * 700] * 150
    await after.close()
    await store.close()


async def test_an_empty_folder_gets_another_identity(tmp_path: Path) -> None:
    seen = set()
    for seed, name in enumerate(("a", "b")):
        disk = RealDisk(tmp_path / name)
        store = await open_journal(disk, seed=seed)
        seen.add(store.incarnation)
        await store.close()
        await disk.close()
    assert len(seen) == 2


async def test_files_of_two_nodes_in_one_folder_are_refused() -> None:
    mine, others = MemoryDisk(), MemoryDisk()
    for seed, disk in enumerate((mine, others)):
        store = await open_journal(disk, seed=seed)
        await fill(store, 1, [b"x" * 1000] * 200)
        await store.close()
    first = "journal-0000000000000001.log"
    await mine.remove(first.replace(".log", ".idx"))
    mixed, renamed = mine.copy(), mine.copy()
    await mixed.replace(first, others.content(first))
    with pytest.raises(Refused, match="another node"):
        await open_journal(mixed)
    await renamed.replace("journal-00000000000000ff.log", mine.content(first))
    with pytest.raises(Refused, match="renamed"):
        await open_journal(renamed)


async def test_settings_that_cannot_work_are_refused() -> None:
    for wrong in (
        {"file_bytes": 100},
        {"group_bytes": 0},
        {"prewrite_after": -1},
        {"max_entry_bytes": 0},
    ):
        with pytest.raises(Refused):
            JournalSettings(**wrong)
    assert SMALL.file_bytes == 64 << 10


PLACES = st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 500))
RUNS = st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 15))


def check(runs: EntryRuns, model: dict[int, tuple[int, int, int]]) -> None:
    for first in range(60):
        expected: list[tuple[int, int, int, int]] = []
        while (entry := first + len(expected)) in model:
            expected.append((entry, *model[entry]))
        assert list(runs.walk(first)) == expected
        assert (runs.find(first) is not None) == (first in model)
    stops = [(run.first, run.stop) for run in runs.items]
    assert stops == sorted(stops)
    assert sum(len(run.lengths) for run in runs.items) == len(model)
    last = min(model, default=-1)
    while last + 1 in model:
        last += 1
    assert runs.last_before_gap() == last


@given(st.lists(PLACES, max_size=60))
def test_entries_added_in_any_order_are_found_at_their_latest_place(
    places: list[tuple[int, int, int]],
) -> None:
    runs = EntryRuns()
    model: dict[int, tuple[int, int, int]] = {}
    for step, (entry, file, length) in enumerate(places):
        replaced = model[entry][2] if entry in model else 0
        assert runs.add(entry, file, step * 8, length) == replaced
        model[entry] = (file, step * 8, length)
    check(runs, model)


@given(st.lists(RUNS, max_size=15))
def test_runs_laid_over_each_other_show_the_latest(wanted: list[tuple[int, int, int]]) -> None:
    runs = EntryRuns()
    model: dict[int, tuple[int, int, int]] = {}
    for step, (first, file, count) in enumerate(wanted):
        entries = range(first, first + count)
        replaced = sum(model[entry][2] for entry in entries if entry in model)
        run = EntryRun(
            file,
            first,
            array("I", (step * 100 + i for i in range(count))),
            array("I", (step + i + 1 for i in range(count))),
        )
        assert runs.insert(run) == replaced
        for i, entry in enumerate(entries):
            model[entry] = (file, (step * 100 + i) * 8, step + i + 1)
    check(runs, model)


def test_entries_in_order_are_one_run_of_eight_bytes_each() -> None:
    runs = EntryRuns()
    for entry in range(100_000):
        runs.add(entry, 1, entry * 8, 1)
    [run] = runs.items
    assert run.positions.itemsize + run.lengths.itemsize == 8
    assert runs.last_before_gap() == 99_999
