"""Cut the power under load: what was not synced is there, not there, or there in part.

A kill leaves everything that was ever written; only this shows that each acknowledgement waited
for the disk. The broker, its journal and its metadata run in the test, over disks that forget.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.managed_ledger import LedgerSettings
from storage_grpc.journal import JournalSettings
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.memory_cluster import MemoryCluster
from tests.faults.seeds import number_from_environment, seeded
from tests.faults.workload import Workload, workload

CUTS = number_from_environment("SULINA_POWER_CUTS", 20)
JOURNAL = JournalSettings(file_bytes=2 << 20, reserve_bytes=1 << 20)
SETTINGS = BrokerSettings(cursor_flush_seconds=0.02, ledger=LedgerSettings(roll_bytes=256 << 10))
"""Even a short life stores some cursors and goes through some ledgers."""


class _Machine:
    """A cluster that loses its power and starts again on the same port."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._cluster = self._cluster_on(MemoryDisk(), MemoryDisk())
        self._running = AsyncExitStack()

    def _cluster_on(self, journal: MemoryDisk, metadata: MemoryDisk) -> MemoryCluster:
        journal.before = metadata.before = self._take_time
        return MemoryCluster(journal, metadata=metadata, settings=SETTINGS, journal=JOURNAL)

    async def _take_time(self, operation: str, name: str) -> None:
        """A sync takes as long as on a disk, so that the cut often comes in the middle of one."""
        if operation == "sync":
            await asyncio.sleep(self._rng.uniform(0, 0.005))

    @property
    def url(self) -> str:
        return f"sulina://127.0.0.1:{self._cluster.port}"

    async def __aenter__(self) -> _Machine:
        await self._running.enter_async_context(self._cluster)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def cut_power(self) -> None:
        """Both disks lose what they may, in the same moment; then everything starts again."""
        before = self._cluster
        journal, metadata = before.disk.crash(self._rng), before.metadata.crash(self._rng)
        await self._running.aclose()
        self._cluster = self._cluster_on(journal, metadata)
        self._cluster.port = before.port
        await self._running.enter_async_context(self._cluster)


@pytest.mark.slow
@pytest.mark.timeout(120 + 4 * CUTS)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered_when_the_power_is_cut() -> None:
    with seeded() as rng:
        async with (
            _Machine(rng) as machine,
            workload(machine.url, rng, operation_timeout=60.0) as load,
        ):
            for _ in range(CUTS):
                await load.some_stored()
                await asyncio.sleep(rng.uniform(0, 0.2))
                await machine.cut_power()
                await load.check_cursors(machine.url)
            await load.stop_sending()
            await machine.cut_power()
            await load.settle()
            await _check_end(load, machine)


async def _check_end(load: Workload, machine: _Machine) -> None:
    for described in (await load.check_cursors(machine.url)).values():
        assert described["backlog"] == 0
    await machine.cut_power()
    await load.check_logs()
    await load.check_cursors(machine.url)
