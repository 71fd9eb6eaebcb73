"""Kill or stop the broker, cut its connections or its power, at random moments under load.

A kill leaves everything that was ever written; only a power cut shows that each acknowledgement
waited for the disk: there, broker, journal and metadata run in the test, over disks that forget.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from storage_grpc.journal import JournalSettings
from sulina.runtime.memory_disk import MemoryDisk
from tests.broker.memory_cluster import MemoryCluster
from tests.faults.flaky_proxy import FlakyProxy
from tests.faults.process import BrokerProcess, broker_process
from tests.faults.seeds import number_from_environment, seeded
from tests.faults.workload import Workload, workload
from tests.support.server import SulinaProcess

KILLS = number_from_environment("SULINA_KILLS", 25)


async def _let_live(broker: BrokerProcess, load: Workload, rng: random.Random) -> None:
    """Wait for the moment of the next kill: while the process still starts, while clients come
    back to it, or, most of the time, while they are all at work."""
    moment = rng.random()
    if moment < 0.1:
        await asyncio.sleep(rng.uniform(0, 0.1))
        return
    await broker.ready()
    if moment < 0.3:
        await load.check_cursors(broker.url)
    elif moment > 0.4:
        await load.some_stored()
    await asyncio.sleep(rng.uniform(0, 0.15))


@pytest.mark.slow
@pytest.mark.timeout(300 + 3 * KILLS)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    with seeded() as rng:
        async with broker_process(tmp_path) as broker:
            await broker.start()
            async with workload(broker.url, rng, operation_timeout=60.0) as load:
                for _ in range(KILLS):
                    broker.kill()
                    await broker.begin()
                    await _let_live(broker, load, rng)
                await load.stop_sending()
                # What was forgotten comes again on new connections only.
                broker.kill()
                await broker.start()
                await load.settle()
                for described in (await load.check_cursors(broker.url)).values():
                    assert described["backlog"] == 0
                broker.kill()
                await broker.start()
                await load.check_logs()
                await load.check_cursors(broker.url)


SECONDS = number_from_environment("SULINA_FLAKY_SECONDS", 8)


@pytest.mark.slow
@pytest.mark.timeout(120 + 3 * SECONDS)
async def test_nothing_is_lost_or_stored_twice_over_a_network_that_loses_connections(
    tmp_path: Path,
) -> None:
    with seeded() as rng, SulinaProcess(tmp_path / "data") as server:
        async with (
            FlakyProxy(server.port, rng) as proxy,
            # Pings are frequent, so that a stalled connection is given up within a second.
            workload(proxy.url, rng, operation_timeout=60.0, ping_interval=0.2) as load,
        ):
            end = asyncio.get_running_loop().time() + SECONDS
            while asyncio.get_running_loop().time() < end:
                await load.some_stored()
                await asyncio.sleep(rng.uniform(0, 1))
                await load.check_cursors(server.url)
            proxy.heal()
            await load.stop_sending()
            proxy.cut_all()  # what was forgotten comes again
            await load.settle()
            for described in (await load.check_cursors(server.url)).values():
                assert described["backlog"] == 0
            assert proxy.harmed
        assert "Traceback" not in server.log()


STOPS = number_from_environment("SULINA_STOPS", 2)


@pytest.mark.slow
@pytest.mark.timeout(120 + 5 * STOPS)
async def test_a_stop_under_load_keeps_everything_and_clients_go_on_by_themselves(
    tmp_path: Path,
) -> None:
    with seeded() as rng, SulinaProcess(tmp_path / "data") as server:
        async with workload(server.url, rng, operation_timeout=60.0) as load:
            for _ in range(STOPS):
                await load.some_stored()
                await asyncio.sleep(rng.uniform(0, 0.5))
                assert await asyncio.to_thread(server.stop) == 0
                await asyncio.to_thread(server.start)
                await load.check_cursors(server.url)
            await load.stop_sending()
            await asyncio.to_thread(server.restart)  # what was forgotten comes again
            await load.settle()
            await asyncio.to_thread(server.restart)
            await load.check_logs()
            for described in (await load.check_cursors(server.url)).values():
                assert described["backlog"] == 0, "a clean stop stores every cursor"
        assert "Traceback" not in server.log()


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
