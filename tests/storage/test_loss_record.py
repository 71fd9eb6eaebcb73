"""Which entries a node may deny after any sequence of stops and starts."""

from __future__ import annotations

from random import Random

import pytest

from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.journal.format import DATA_START, IMAGE_SIZE
from storage_grpc.journal.index import DamagedRange
from storage_grpc.journal.recover import RecoveryReport
from storage_grpc.loss_record import LossRecord
from storage_grpc.node import LocalNode, MaybeLost
from sulina.errors import NotFound
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock

_OLD, _NEW = 1, 2


class RestartingNode:
    """A node's folder across starts and stops."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self._boot = 1
        self._starts = 0
        self.store: JournalStore
        self.loss_record: LossRecord

    async def start(self) -> LossRecord:
        settings = JournalSettings(file_bytes=64 << 10, reserve_bytes=16 << 10)
        self.store = await JournalStore.open(self.disk, RealClock(), settings, Random(1))
        self._starts += 1
        self.loss_record = await LossRecord.open(
            self.disk, self.store.recovery, f"boot {self._boot}", f"life {self._starts}"
        )
        return self.loss_record

    async def stop(self) -> None:
        await self.loss_record.save()
        await self.store.close()

    async def kill(self) -> None:
        await self.store.close(clean=False)

    async def cut_power(self) -> None:
        await self.kill()
        self.disk = self.disk.crash(Random(1))
        self._boot += 1


async def test_a_new_node_and_one_that_stopped_cleanly_are_sure_of_everything() -> None:
    node = RestartingNode()
    assert (await node.start()).certain(_OLD)
    await node.stop()
    assert (await node.start()).certain(_OLD)
    await node.stop()


async def test_a_process_that_died_has_lost_nothing_while_the_system_went_on() -> None:
    node = RestartingNode()
    await node.start()
    await node.kill()
    assert (await node.start()).certain(_OLD)
    await node.stop()


async def test_a_process_that_died_and_whose_journal_was_cut_may_have_lost_something() -> None:
    node = RestartingNode()
    life = (await node.start()).life
    payload = b"synced, and bad by the next start"
    await node.store.append(_OLD, 0, -1, payload)
    await node.kill()
    [name] = [name for name in await node.disk.list() if name.endswith(".log")]
    at = node.disk.content(name).index(payload)
    for position in range(at - IMAGE_SIZE, at + len(payload)):
        node.disk.flip(name, position)
    loss_record = await node.start()
    assert node.store.recovery.cut_bytes
    assert not loss_record.certain(_OLD)
    assert loss_record.life != life
    await node.stop()


async def test_after_a_power_cut_a_node_is_sure_only_of_ledgers_that_began_since() -> None:
    node = RestartingNode()
    await node.start()
    await node.cut_power()
    loss_record = await node.start()
    loss_record.created(_NEW)
    assert loss_record.certain(_NEW) and not loss_record.certain(_OLD)
    await node.stop()


async def test_doubt_outlives_clean_stops_and_kills() -> None:
    node = RestartingNode()
    await node.start()
    await node.cut_power()
    (await node.start()).created(_NEW)
    await node.stop()
    assert not (await node.start()).certain(_OLD)
    await node.kill()
    assert not (await node.start()).certain(_OLD)
    assert node.loss_record.certain(_NEW), "which was noted at the clean stop"
    await node.stop()


async def test_a_second_power_cut_puts_everything_in_doubt_again() -> None:
    node = RestartingNode()
    await node.start()
    await node.cut_power()
    (await node.start()).created(_NEW)
    await node.stop()
    await node.start()
    await node.cut_power()
    assert not (await node.start()).certain(_NEW)
    await node.stop()


async def test_a_note_that_can_not_be_read_is_doubt() -> None:
    node = RestartingNode()
    await node.start()
    await node.stop()
    await node.disk.replace("standing.json", b"{")
    assert not (await node.start()).certain(_OLD)
    await node.stop()


async def test_where_boots_can_not_be_told_apart_every_kill_may_be_a_power_cut() -> None:
    disk = MemoryDisk()
    store = await JournalStore.open(disk, RealClock(), JournalSettings(), Random(1))
    await LossRecord.open(disk, store.recovery, "", "x")
    await store.close(clean=False)
    store = await JournalStore.open(disk, RealClock(), JournalSettings(), Random(1))
    assert not (await LossRecord.open(disk, store.recovery, "", "x")).certain(_OLD)
    await store.close()


async def test_on_a_full_disk_doubt_is_noted_before_the_stop_that_relies_on_it() -> None:
    node = RestartingNode()
    await node.start()
    await node.cut_power()
    node.disk.capacity = 0
    await node.start()
    node.disk.capacity = None
    await node.stop()
    assert not (await node.start()).certain(_OLD)
    await node.stop()


def _found(*damaged: DamagedRange, stopped: bool = True) -> RecoveryReport:
    return RecoveryReport(
        stopped=stopped,
        files=1,
        scanned_files=1,
        records=1,
        bytes=1,
        cut_bytes=0,
        corrupt_records=0,
        damaged=damaged,
        seconds=0.0,
    )


async def test_damage_puts_older_ledgers_in_doubt_once_and_not_at_every_start() -> None:
    disk, damage = MemoryDisk(), DamagedRange(1, 100, 200)
    loss_record = await LossRecord.open(disk, _found(damage), "boot", "x")
    loss_record.created(_NEW)
    assert loss_record.certain(_NEW) and not loss_record.certain(_OLD)
    await loss_record.save()
    again = await LossRecord.open(disk, _found(damage), "boot", "x")
    assert again.certain(_NEW) and not again.certain(_OLD)
    worse = await LossRecord.open(disk, _found(damage, DamagedRange(2, 0, 10)), "boot", "y")
    assert not worse.certain(_NEW)


async def test_a_damaged_node_denies_entries_of_ledgers_that_began_after_the_damage() -> None:
    disk = MemoryDisk()
    store = await JournalStore.open(disk, RealClock(), JournalSettings(), Random(1))
    for entry in range(3):
        await store.append(_OLD, entry, -1, bytes(100))
    await store.close()
    name = next(name for name in await disk.list() if name.endswith(".log"))
    for position in range(DATA_START, DATA_START + 400):
        disk.flip(name, position)
    for other in [name for name in await disk.list() if name.endswith(".idx")]:
        await disk.remove(other)
    store = await JournalStore.open(disk, RealClock(), JournalSettings(), Random(1))
    node = LocalNode("a", store, await LossRecord.open(disk, store.recovery, "boot", "x"))
    assert store.recovery.damaged
    await node.append(_NEW, 0, -1, b"began here")
    with pytest.raises(NotFound):
        await node.read(_NEW, 1, max_entries=1, max_bytes=1)
    with pytest.raises(MaybeLost):
        await node.read(_OLD, 7, max_entries=1, max_bytes=1)
    await store.close()
