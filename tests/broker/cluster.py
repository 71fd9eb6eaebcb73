"""A real embedded cluster for tests: broker, journal and metadata over a folder, behind TCP.

It can be stopped and started again over the same folder, on the same port, so that clients find
it again.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import sulina
from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.listen import Listen
from storage_grpc.journal import JournalSettings

SMALL_JOURNAL = JournalSettings(
    file_bytes=64 << 10,
    reserve_bytes=16 << 10,
    spare_bytes=16 << 10,
    group_bytes=16 << 10,
)
"""So small that a test's records go through several files."""


class Cluster:
    """One process's worth of Sulina. Use as ``async with``, or ``start`` and ``stop``."""

    def __init__(
        self,
        folder: Path,
        settings: BrokerSettings | None = None,
        journal: JournalSettings | None = None,
        tier: str | None = None,
    ) -> None:
        self.tier = tier
        self.folder = folder
        self.settings = settings
        self.journal = journal
        self.port = 0
        self._running: AsyncExitStack | None = None
        self._server: RunningBroker | None = None

    @property
    def server(self) -> RunningBroker:
        assert self._server is not None, "the cluster is not running"
        return self._server

    @property
    def broker(self) -> Broker:
        """The one behind the server."""
        return self.server.broker

    @property
    def url(self) -> str:
        return f"sulina://127.0.0.1:{self.port}"

    def client(
        self,
        *,
        operation_timeout: float = 10.0,
        reconnect_timeout: float = 30.0,
        ping_interval: float = 10.0,
    ) -> sulina.Client:
        """A client of this cluster, not yet connected."""
        return sulina.connect(
            self.url,
            operation_timeout=operation_timeout,
            reconnect_timeout=reconnect_timeout,
            ping_interval=ping_interval,
        )

    async def start(self) -> None:
        running = AsyncExitStack()
        serving = run_embedded(
            self.folder,
            DoorSettings(Listen(port=self.port)),
            settings=self.settings,
            journal=self.journal,
            tier=self.tier,
        )
        self._server = await running.enter_async_context(serving)
        self._running = running
        self.port = self._server.addresses.port

    async def stop(self) -> None:
        """Stop cleanly; nothing happens if it does not run."""
        running, self._running, self._server = self._running, None, None
        if running is not None:
            await running.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
