"""The embedded store on a disk: durable before it answers, and the same after a restart."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from sulina.errors import (
    CorruptEntry,
    NotFound,
    StorageFailed,
    StorageFull,
    UnknownOutcome,
)
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import Compacted, Delete, KeyValue, Listing, Put
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_disk import RealDisk
from tests.metadata.harness import take
from tests.metadata.manual_clock import ManualClock

LOG = "metadata-00000000000000000001.log"
SNAPSHOT = "metadata.snapshot"


async def opened(disk: MemoryDisk, clock: ManualClock | None = None) -> EmbeddedStore:
    return await EmbeddedStore.open(clock or ManualClock(), disk)


async def everything(store: EmbeddedStore) -> Listing:
    return await store.range("")


async def test_a_restart_keeps_keys_and_revisions(tmp_path: Path) -> None:
    clock = ManualClock()
    disk = RealDisk(tmp_path)
    store = await EmbeddedStore.open(clock, disk)
    await store.put("/a", b"1")
    await store.put("/a", b"2")
    await store.put("/gone", b"")
    await store.txn((), [Put("/é", bytes(range(256))), Delete("/gone")])
    before = await everything(store)
    await store.close()
    await disk.close()
    disk = RealDisk(tmp_path)
    store = await EmbeddedStore.open(clock, disk)
    assert await everything(store) == before
    assert await store.put("/b", b"") == before.revision + 1
    await store.close()
    await disk.close()


async def test_a_deletion_at_the_end_still_counts_after_a_restart() -> None:
    disk = MemoryDisk()
    store = await EmbeddedStore.open(ManualClock(), disk, max_log_bytes=1)  # a snapshot each time
    revision = await store.put("/a", b"")
    await store.delete("/a")
    await store.close()
    store = await opened(disk)
    assert await everything(store) == Listing((), revision + 1, more=False)
    await store.close()


async def test_a_lease_gets_its_full_time_again_after_a_restart() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = await opened(disk, clock)
    lease = await store.grant(10)
    other = await store.grant(10)
    revision = await store.put("/member", b"", lease=lease.id)
    await store.put("/other", b"", lease=other.id)
    await other.revoke()
    await clock.advance(9)
    await store.close()
    store = await opened(disk, clock)
    await clock.advance(9)
    assert await store.get("/member") == KeyValue("/member", b"", revision, revision, 1, lease.id)
    await clock.advance(2)
    [event] = await take(store.watch("/member", from_revision=revision + 1), 1)
    assert event.mod_revision == revision + 3
    with pytest.raises(NotFound):
        await store.put("/member", b"", lease=other.id)
    await store.close()


@pytest.mark.parametrize("max_log_bytes", [1, 1_000_000])
async def test_a_lease_id_is_never_given_again(max_log_bytes: int) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = await EmbeddedStore.open(clock, disk, max_log_bytes=max_log_bytes)
    first = await store.grant(10)
    await first.revoke()
    for _ in range(10):
        await store.put("/a", b"")
    await store.close()
    store = await opened(disk, clock)
    assert (await store.grant(10)).id > first.id
    await store.close()


async def test_a_watch_goes_on_after_a_restart_while_the_log_has_it() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    revision = await store.put("/w", b"1")
    await store.put("/w", b"2")
    await store.close()
    store = await opened(disk)
    events = await take(store.watch("/w", from_revision=revision), 2)
    assert [event.value for event in events] == [b"1", b"2"]
    await store.close()


async def test_a_watch_from_before_the_snapshot_must_list_again() -> None:
    disk = MemoryDisk()
    store = await EmbeddedStore.open(ManualClock(), disk, max_log_bytes=1)
    revision = await store.put("/w", b"1")
    await store.close()
    store = await opened(disk)
    with pytest.raises(Compacted) as caught:
        await take(store.watch("/w", from_revision=revision), 1)
    assert caught.value.revision == revision + 1
    await store.close()


async def test_transactions_that_come_together_share_one_sync() -> None:
    syncs: list[str] = []

    async def count(operation: str, name: str) -> None:
        if operation == "sync":
            syncs.append(name)

    disk = MemoryDisk()
    store = await opened(disk)
    disk.before = count
    revisions = await asyncio.gather(*(store.put(f"/{number}", b"") for number in range(100)))
    assert sorted(revisions) == list(range(2, 102))
    assert syncs == [LOG]
    await store.close()


class Gate:
    """Holds back one kind of operation of a disk until it is opened, or makes it fail."""

    def __init__(self, disk: MemoryDisk, operation: str) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.error: Exception | None = None
        self._operation = operation
        disk.before = self._pass

    async def _pass(self, operation: str, name: str) -> None:
        if operation == self._operation:
            self.reached.set()
            await self.open.wait()
            if self.error is not None:
                raise self.error


async def test_nobody_sees_a_change_before_it_is_durable() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    before = await everything(store)
    gate = Gate(disk, "sync")
    watch = store.watch("", from_revision=before.revision + 1)
    event = asyncio.ensure_future(anext(watch))
    writing = asyncio.create_task(store.put("/a", b""))
    await gate.reached.wait()
    assert await everything(store) == before
    assert not writing.done()
    assert not event.done()
    gate.open.set()
    revision = await writing
    assert (await event).mod_revision == revision
    assert await store.get("/a") is not None
    await store.close()


async def test_a_failed_sync_leaves_the_outcome_unknown_and_stops_all_writing() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    await store.put("/a", b"1")
    gate = Gate(disk, "sync")
    gate.error = StorageFailed("input/output error")
    gate.open.set()
    with pytest.raises(UnknownOutcome, match="read back"):
        await store.put("/a", b"2")
    disk.before = None
    with pytest.raises(StorageFailed, match="restart this node"):
        await store.put("/a", b"3")
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"1"
    await store.close()
    # After the restart it shows what was kept; here the bytes had got to the disk.
    store = await opened(disk)
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"2"
    await store.close()


async def test_what_a_restart_shows_is_durable_even_if_it_was_not_before() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    gate = Gate(disk, "sync")
    gate.error = StorageFailed("the process was killed")
    gate.open.set()
    with pytest.raises(UnknownOutcome):
        await store.put("/a", b"written, not synced")
    await store.close()
    disk.before = None
    store = await opened(disk)
    shown = await everything(store)
    assert len(shown.items) == 1
    await store.close()
    for seed in range(20):
        store = await opened(disk.crash(random.Random(seed)))
        assert await everything(store) == shown
        await store.close()


async def test_a_full_disk_refuses_writes_serves_reads_and_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    revision = await store.put("/a", b"kept")
    disk.capacity = len(disk.content(LOG)) + 500
    with pytest.raises(StorageFull):
        await store.put("/a", bytes(1_000))
    assert await everything(store) == Listing(
        (KeyValue("/a", b"kept", revision, revision, 1, 0),), revision, more=False
    )
    # What fits still goes in, and nothing of what was refused is left, neither here nor there.
    assert await store.put("/small", b"") == revision + 1
    disk.capacity = None
    assert await store.put("/a", bytes(1_000)) == revision + 2
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the metadata cannot be changed until there is space",
        "the metadata has space again and takes changes",
    ]
    before = await everything(store)
    await store.close()
    store = await opened(disk)
    assert await everything(store) == before
    await store.close()


async def test_on_a_full_disk_every_transaction_of_the_group_fails() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    disk.capacity = 200
    outcomes = await asyncio.gather(
        *(store.put(f"/{number}", bytes(100)) for number in range(5)), return_exceptions=True
    )
    assert all(isinstance(outcome, StorageFull) for outcome in outcomes)
    assert (await everything(store)).items == ()
    await store.close()
    disk.capacity = None
    store = await opened(disk)
    assert (await everything(store)).items == ()
    await store.close()


async def test_a_refused_write_that_cannot_be_cleaned_up_has_an_unknown_outcome() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    disk.capacity = 10
    gate = Gate(disk, "truncate")
    gate.error = StorageFailed("input/output error")
    gate.open.set()
    with pytest.raises(UnknownOutcome):
        await store.put("/a", bytes(100))
    with pytest.raises(StorageFailed):
        await store.put("/a", b"")
    await store.close()


async def test_a_lease_that_runs_out_on_a_full_disk_is_revoked_when_there_is_space() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = await opened(disk, clock)
    lease = await store.grant(5)
    revision = await store.put("/member", b"", lease=lease.id)
    disk.capacity = 0
    await clock.advance(10)
    assert await store.get("/member") is not None
    assert not await store.renew_lease(lease.id)
    disk.capacity = None
    await clock.advance(2)
    [event] = await take(store.watch("/member", from_revision=revision + 1), 1)
    assert event.key == "/member"
    await store.close()


async def test_a_caller_who_gives_up_in_the_queue_changes_nothing() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    gate = Gate(disk, "sync")
    first = asyncio.create_task(store.put("/first", b""))
    await gate.reached.wait()
    second = asyncio.create_task(store.put("/second", b""))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    gate.open.set()
    await first
    await store.put("/third", b"")
    assert [item.key for item in (await everything(store)).items] == ["/first", "/third"]
    await store.close()


async def test_closing_finishes_what_is_queued() -> None:
    disk = MemoryDisk()
    store = await opened(disk)
    gate = Gate(disk, "sync")
    writes = [asyncio.create_task(store.put("/first", b""))]
    await gate.reached.wait()
    writes.append(asyncio.create_task(store.put("/second", b"")))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    gate.open.set()
    await closing
    assert [await write for write in writes] == [2, 3]
    store = await opened(disk)
    assert len((await everything(store)).items) == 2
    await store.close()


async def test_a_folder_with_other_files_is_no_trouble() -> None:
    disk = MemoryDisk()
    for name in ("metadata-notes.log", "journal", "metadata-1.log"):
        await disk.replace(name, b"something else")
    store = await opened(disk)
    await store.put("/a", b"")
    await store.close()
    assert disk.content("metadata-1.log") == b"something else"


async def test_a_damaged_snapshot_is_reported() -> None:
    disk = MemoryDisk()
    store = await EmbeddedStore.open(ManualClock(), disk, max_log_bytes=1)
    await store.put("/a", b"1")
    await store.close()
    for position in range(len(disk.content(SNAPSHOT))):
        damaged = disk.copy()
        damaged.flip(SNAPSHOT, position)
        with pytest.raises(CorruptEntry, match="restore the folder"):
            await opened(damaged)
