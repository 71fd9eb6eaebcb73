"""A ``sulina up`` whose CPU time and memory are read, and which can be killed and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sulina
from benchmarks.program import RESULTS, data_folder
from benchmarks.systems.base import SystemServer
from benchmarks.systems.sulina_ import sulina_command
from benchmarks.watch import cpu_seconds, resident
from localstack.emulators.server import HOST
from sulina import Client, Producer

START_SECONDS = 120.0


@dataclass(slots=True)
class ScaledServer:
    """One process with its data in ``folder``."""

    folder: Path
    process: SystemServer

    @property
    def url(self) -> str:
        """For clients."""
        return f"sulina://{HOST}:{self.process.port}"

    def connect(self) -> Client:
        """A client that waits long for a busy server."""
        return sulina.connect(self.url, connect_timeout=120.0, operation_timeout=300.0)

    async def lift_quotas(self) -> None:
        """Let there be more topics and producers than a namespace may have by default."""
        async with self.connect() as client:
            await client.admin.quotas.namespace("default", topics=0, producers=0)

    def memory(self) -> int:
        """Bytes resident."""
        return resident(self.process.tree())

    def cpu(self) -> float:
        """CPU seconds so far."""
        return cpu_seconds(self.process.tree())

    def restart(self) -> float:
        """kill -9 and start again on the same port; blocks, returns seconds until it listens."""
        self.process.stop()
        began = time.monotonic()
        self.process = _started(self.folder, self.process.port)
        return time.monotonic() - began


@contextmanager
def scaled_server(out: Path = RESULTS) -> Iterator[ScaledServer]:
    """A new server, killed at the end; its data is deleted."""
    with data_folder(out / "data", "scale") as folder:
        server = ScaledServer(folder, _started(folder, 0))
        try:
            yield server
        finally:
            server.process.stop()


def _started(folder: Path, port: int) -> SystemServer:
    process = SystemServer(folder / "server.log")
    process.port = port or process.port
    process.run(sulina_command("up", folder / "data", process.port))
    return process.started(START_SECONDS)


async def acked(producer: Producer, payload: bytes) -> None:
    """Send one record and wait until it is durable."""
    await (await producer.send(payload))


async def loop_for(
    seconds: float, producers: Sequence[Producer], workers: int, payload: bytes
) -> list[float]:
    """Seconds of each send: ``workers`` records in flight, producers in turn."""
    end = time.monotonic() + seconds
    samples: list[float] = []
    turn = 0

    async def work() -> None:
        nonlocal turn
        while (began := time.monotonic()) < end:
            producer = producers[turn % len(producers)]
            turn += 1
            await acked(producer, payload)
            samples.append(time.monotonic() - began)

    async with asyncio.TaskGroup() as working:
        for _ in range(workers):
            working.create_task(work())
    return samples
