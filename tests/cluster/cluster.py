"""A whole cluster of processes: storage nodes, the wires to them, and a broker.

The broker reaches every node over a wire of its own, which a test may harm; nodes and broker are
killed, frozen and started again as processes.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.faults.workload import Workload, workload
from tests.storage_service.process import StorageProcess, storage_processes
from tests.support.server import SulinaProcess
from tests.support.wire import Wire

_loads = itertools.count(1)
_OWN_ERROR = re.compile(r"ERROR (storage_grpc|sulina|asyncio)")


class Cluster:
    """Made by :func:`cluster`. What a test leaves broken, ``heal`` mends."""

    def __init__(
        self, nodes: list[StorageProcess], wires: list[Wire], broker: SulinaProcess
    ) -> None:
        self.nodes = nodes
        self.wires = wires
        """The way to each node, in the same order."""
        self.broker = broker

    async def heal(self) -> None:
        """Everybody runs, everybody reaches everybody, and the broker counts on every node."""
        for wire in self.wires:
            wire.heal()
        for node in self.nodes:
            if not node.running:
                await node.start()
            node.thaw()
            node.free_disk()
        if not self.broker.running:
            await asyncio.to_thread(self.broker.start)
        while not all(self._counts_on(node) for node in self.nodes):
            await asyncio.sleep(0.05)

    def _counts_on(self, node: StorageProcess) -> bool:
        """Whether the broker last said that a node is healthy."""
        _, _, last = self.broker.log().rpartition(f"storage node {node.id} is ")
        return last.startswith("healthy")

    async def noticed(self, node: StorageProcess, since: int) -> None:
        """Wait until the broker has given up on a node; ``since`` is a ``mark``."""
        await self._broker_says(f"storage node {node.id} is unhealthy and not used", since)

    async def welcomed(self, node: StorageProcess, since: int) -> None:
        """Wait until the broker counts on a node again."""
        await self._broker_says(f"storage node {node.id} is healthy", since)

    def mark(self) -> int:
        """This moment, for ``noticed`` and ``welcomed``."""
        return len(self.broker.log())

    async def _broker_says(self, words: str, since: int) -> None:
        while words not in self.broker.log()[since:]:
            await asyncio.sleep(0.05)

    async def new_broker(self) -> None:
        """Kill the broker without a warning; another one takes over its topics."""
        self.broker.kill()
        await asyncio.to_thread(self.broker.start)

    @asynccontextmanager
    async def load(self, rng: random.Random) -> AsyncIterator[Workload]:
        """Producers and consumers of all kinds, at work until the end of the block; then all that
        they were told is compared with what a new broker finds on the nodes."""
        async with workload(
            self.broker.url, rng, suffix=f"-{next(_loads)}", operation_timeout=60.0
        ) as load:
            await load.some_stored()
            yield load
            await self.heal()
            await load.some_stored()
            await load.stop_sending()
            # What consumers forgot on purpose comes again, and nothing is left in a cache.
            await self.new_broker()
            await load.settle()
        self.check_logs()

    def check_logs(self) -> None:
        """Nobody met anything that was not foreseen."""
        assert "Traceback" not in self.broker.log(), self.broker.log()
        for node in self.nodes:
            # gRPC logs an error of its own when a caller is killed in the middle of a call.
            assert not _OWN_ERROR.search(node.log()), node.log()


@asynccontextmanager
async def cluster(folder: Path, count: int) -> AsyncIterator[Cluster]:
    """So many storage nodes and a broker, all running; dead when left."""
    async with AsyncExitStack() as stack:
        nodes = stack.enter_context(storage_processes(folder, count, "sulina.cli", "storage"))
        wires = [await stack.enter_async_context(Wire(node.port)) for node in nodes]
        places = [
            f"--storage-node={node.id}=127.0.0.1:{wire.port}"
            for node, wire in zip(nodes, wires, strict=True)
        ]
        broker = SulinaProcess(folder / "broker", "--log-level", "info", *places)
        stack.callback(broker.kill)
        await asyncio.to_thread(broker.start)
        yield Cluster(nodes, wires, broker)


async def goes_on(load: Workload, times: int = 5) -> None:
    """Wait until records have been stored so many times from now on."""
    for _ in range(times):
        await load.some_stored()
