"""A cluster whose disk is in memory and under the test's control: slow, stuck, full or damaged.

Everything else is real: the broker, the journal, the metadata store, TCP and the client.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import sulina
from broker_containers.assembly.running import DoorSettings, LedgerStorage, RunningBroker
from broker_containers.assembly.single import single_broker
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.http.health import journal_check
from broker_containers.doors.listen import Listen
from broker_containers.topic_log.cleanup import delete_orphans
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.journal.metrics import of_journal
from storage_grpc.ledgers import EmbeddedLedgers
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from tests.broker.actions import PATIENCE


class GatedDisk(MemoryDisk):
    """A disk on which some operations wait while it is closed; reads do not."""

    def __init__(self, *operations: str) -> None:
        super().__init__(before=self._wait)
        self._operations = operations or ("write", "sync", "reserve")
        self._opened = asyncio.Event()
        self._opened.set()
        self._waiting = asyncio.Event()

    def close_gate(self) -> None:
        self._opened.clear()
        self._waiting.clear()

    def open_gate(self) -> None:
        self._opened.set()

    async def blocked(self) -> None:
        """Wait until an operation waits at the closed gate."""
        await asyncio.wait_for(self._waiting.wait(), PATIENCE)

    async def _wait(self, operation: str, name: str) -> None:
        if operation in self._operations and not self._opened.is_set():
            self._waiting.set()
            await self._opened.wait()


class MemoryCluster:
    """Use as ``async with``; opened again over the same disks, it finds its data."""

    def __init__(
        self,
        disk: MemoryDisk,
        *,
        metadata: MemoryDisk | None = None,
        settings: BrokerSettings | None = None,
        journal: JournalSettings | None = None,
        clock: RealClock | None = None,
        high_water: int = 32 << 20,
        http: Listen | None = None,
    ) -> None:
        self._http = http
        self.disk = disk
        self.metadata = metadata or MemoryDisk()
        self.settings = settings or BrokerSettings()
        self.clock = clock or RealClock()
        self._journal = journal or JournalSettings(reserve_bytes=1 << 20)
        self._high_water = high_water
        self._running: AsyncExitStack | None = None
        self.port = 0
        self.store: JournalStore
        self.broker: Broker
        self.server: RunningBroker

    def client(self, *, operation_timeout: float = 10.0) -> sulina.Client:
        return sulina.connect(
            f"sulina://127.0.0.1:{self.port}", operation_timeout=operation_timeout
        )

    async def __aenter__(self) -> MemoryCluster:
        clock = self.clock
        async with AsyncExitStack() as stack:
            metadata = await EmbeddedStore.open(clock, self.metadata)
            stack.push_async_callback(metadata.close)
            self.store = await JournalStore.open(self.disk, clock, self._journal, random.Random(1))
            stack.push_async_callback(self.store.close)
            await delete_orphans(self.store, metadata)
            storage = LedgerStorage(
                EmbeddedLedgers(self.store, high_water=self._high_water),
                journal_check(self.store),
                of_journal(self.store),
            )
            doors = DoorSettings(Listen(port=self.port), http=self._http)
            self.server = await stack.enter_async_context(
                single_broker(doors, metadata, storage, clock, self.settings)
            )
            self.broker = self.server.broker
            self.port = self.server.addresses.port
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._running is not None
        await self._running.aclose()
