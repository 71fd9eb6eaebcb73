"""Power loss or a kill at any moment: everything that was acknowledged is kept."""

from __future__ import annotations

import asyncio
import random
import sys
from functools import partial
from pathlib import Path

import pytest

from storage_grpc.journal import JournalStore
from sulina.errors import Fenced, NotFound, StorageFailed, SulinaError
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import open_journal


class EntryModel:
    """What was sent and what was acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], bytes] = {}
        self.acknowledged: set[tuple[int, int]] = set()
        self.next_entry: dict[int, int] = {}
        self.fenced: set[int] = set()
        self.deleted: set[int] = set()
        self.maybe_fenced: set[int] = set()
        self.maybe_deleted: set[int] = set()
        """An attempted call may have taken effect without an answer."""


async def work(store: JournalStore, model: EntryModel, chance: random.Random) -> None:
    """Append, fence and delete until the power is lost."""
    waiting: list[asyncio.Future[None]] = []

    def note(ledger: int, entry: int, done: asyncio.Future[None]) -> None:
        if done.exception() is None:
            model.acknowledged.add((ledger, entry))

    try:
        while True:
            ledger = chance.randrange(max(model.next_entry, default=0) + 2)
            what = chance.random()
            if ledger in model.maybe_deleted | model.maybe_fenced:
                ledger = max(model.next_entry, default=0) + 1
            if what < 0.03:
                model.maybe_fenced.add(ledger)
                model.next_entry.setdefault(ledger, 0)
                await store.fence(ledger)
                model.fenced.add(ledger)
            elif what < 0.06 and ledger in model.next_entry:
                model.maybe_deleted.add(ledger)
                await store.delete(ledger)
                model.deleted.add(ledger)
            else:
                await store.wait_writable()
                entry = model.next_entry.get(ledger, 0)
                model.next_entry[ledger] = entry + 1
                payload = chance.randbytes(chance.choice((1, 40, 600, 3000)))
                model.sent[ledger, entry] = payload
                done = store.append(ledger, entry, entry - 1, payload)
                done.add_done_callback(partial(note, ledger, entry))
                waiting.append(done)
                if chance.random() < 0.3:
                    await done
    except StorageFailed:
        await asyncio.gather(*waiting, return_exceptions=True)


async def check(store: JournalStore, model: EntryModel) -> None:
    assert store.recovery.damaged == ()
    for (ledger, entry), payload in model.sent.items():
        if ledger in model.maybe_deleted and ledger not in model.deleted:
            continue
        try:
            [found] = await store.read(ledger, entry, max_entries=1, max_bytes=1)
        except NotFound:
            assert ledger in model.deleted or (ledger, entry) not in model.acknowledged
        else:
            assert ledger not in model.deleted
            assert bytes(found.payload) == payload
    for ledger in model.deleted:
        with pytest.raises(NotFound):
            await store.append(ledger, 1 << 40, -1, b"late")
    for ledger in model.fenced - model.maybe_deleted:
        with pytest.raises(Fenced):
            await store.append(ledger, 1 << 40, -1, b"late")


class PowerCut:
    """Loses power before the disk's n-th operation of the given kind (of any kind if None)."""

    def __init__(
        self, disk: MemoryDisk, chance: random.Random, countdown: int, kind: str | None = None
    ) -> None:
        self._disk = disk
        self._chance = chance
        self._countdown = countdown
        self._kind = kind
        self.survivor: MemoryDisk | None = None
        disk.before = self

    async def __call__(self, operation: str, _: str) -> None:
        if self._chance.random() < 0.5:
            await asyncio.sleep(0)
        if self._kind in (None, operation):
            self._countdown -= 1
            if self._countdown == 0:
                self.survivor = self._disk.crash(self._chance)


@pytest.mark.parametrize("block", range(10))
async def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        chance = random.Random(seed)
        disk = MemoryDisk()
        model = EntryModel()
        for _ in range(3):
            cut = PowerCut(disk, chance, chance.randrange(1, 120))
            try:
                store = await open_journal(disk, seed=seed)
            except SulinaError:
                pass  # the power went during the start
            else:
                await work(store, model, chance)
                await store.close()
            assert cut.survivor is not None
            disk = cut.survivor
            store = await open_journal(disk, seed=seed)
            await check(store, model)
            await store.close()


async def test_entries_written_but_not_synced_are_not_acknowledged() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    syncing, go_on = asyncio.Event(), asyncio.Event()

    async def hold_sync(operation: str, _: str) -> None:
        if operation == "sync":
            syncing.set()
            await go_on.wait()

    disk.before = hold_sync
    done = store.append(1, 0, -1, b"entry")
    await syncing.wait()
    assert not done.done()
    with pytest.raises(NotFound):
        await store.read(1, 0, max_entries=1, max_bytes=1)
    go_on.set()
    await done
    [found] = await store.read(1, 0, max_entries=1, max_bytes=1)
    assert bytes(found.payload) == b"entry"
    await store.close()


async def test_appends_during_a_commit_share_the_next_one() -> None:
    disk = MemoryDisk()
    store = await open_journal(disk)
    syncs = 0
    go_on = asyncio.Event()

    async def hold_sync(operation: str, _: str) -> None:
        nonlocal syncs
        if operation == "sync":
            syncs += 1
            await go_on.wait()

    disk.before = hold_sync
    first = store.append(1, 0, -1, b"x")
    while syncs == 0:
        await asyncio.sleep(0)
    rest = [store.append(1, entry, -1, b"x") for entry in range(1, 50)]
    go_on.set()
    await asyncio.gather(first, *rest)
    assert syncs == 2
    disk.before = None
    await store.close()


async def test_what_a_start_found_stays_readable_after_a_power_cut() -> None:
    """The tail found at a start is made durable before it is served, even if its sync failed."""
    for seed in range(20):
        disk = MemoryDisk()
        store = await open_journal(disk)
        await store.append(1, 0, -1, b"zero")

        async def fail_sync(operation: str, name: str) -> None:
            if operation == "sync":
                raise StorageFailed(f"cannot {operation} {name}: Input/output error")

        disk.before = fail_sync
        with pytest.raises(StorageFailed):
            await store.append(1, 1, 0, b"one" * 700)
        await store.close()
        disk.before = None
        store = await open_journal(disk)
        assert len(await store.read(1, 0, max_entries=9, max_bytes=1 << 20)) == 2
        survivor = disk.crash(random.Random(seed))
        await store.close()
        store = await open_journal(survivor)
        assert store.recovery.damaged == ()
        assert len(await store.read(1, 0, max_entries=9, max_bytes=1 << 20)) == 2
        await store.close()


WRITER = """
import asyncio, sys
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import open_journal
from tests.storage.test_crash import content

async def main():
    store = await open_journal(RealDisk(sys.argv[1]))
    ledger = int(sys.argv[2])
    entry = 0

    def report(done, entry):
        if done.exception() is None:
            print(entry, flush=True)

    while True:
        await store.wait_writable()
        done = store.append(ledger, entry, entry - 1, content(ledger, entry))
        done.add_done_callback(lambda done, entry=entry: report(done, entry))
        entry += 1
        if entry % 7 == 0:
            await done

asyncio.run(main())
"""


def content(ledger: int, entry: int) -> bytes:
    return b"%d-%d " % (ledger, entry) * (entry % 90 + 1)


async def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged: dict[int, int] = {}
    for ledger in range(8):
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITER, str(tmp_path), str(ledger)),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert writer.stdout is not None
        told = b"".join([await writer.stdout.readline() for _ in range(chance.randrange(1, 400))])
        writer.kill()
        told += await writer.stdout.read()
        await writer.wait()
        *_, last, _ = told.split(b"\n")
        acknowledged[ledger] = int(last)
        disk = RealDisk(tmp_path)
        store = await open_journal(disk)
        assert store.unclean
        assert store.recovery.damaged == ()
        for written, highest in acknowledged.items():
            entries = await store.read(written, 0, max_entries=1 << 30, max_bytes=1 << 40)
            assert len(entries) > highest
            for entry in entries:
                assert bytes(entry.payload) == content(written, entry.entry)
        await store.close()
        await disk.close()
