"""Where the proof runs: brokers and a catalog that die and come back, and those who commit."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from broker_containers.local_cluster.ports import ClusterSize
from localstack.emulators.server import EmulatorServer
from sulina.runtime.child_process import ChildProcess
from tests.procedures.machine import Machine, machine
from tests.support.server import SulinaProcess

_SETTINGS: Final = ("--tier-after", "5", "--tier-local", "0")
_DEAD_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1
_NOTICED_SECONDS: Final = 120.0
"""The most that it takes, unless the committers have ended, which then never notice."""


class Brokers(Protocol):
    """Brokers that serve clients."""

    url: str

    async def kill_one(self) -> None:
        """Kill one as a crash would, and start it again later. Each call takes the next one."""


class OneProcess:
    """``sulina up``."""

    def __init__(self, process: SulinaProcess) -> None:
        self._process = process
        self.url = process.url

    async def kill_one(self) -> None:
        await asyncio.to_thread(self._process.kill)
        await asyncio.to_thread(self._process.start)


class Cluster:
    """Three brokers, three storage nodes and etcd, each a process."""

    def __init__(self, made: Machine) -> None:
        self._machine = made
        self._left = list(made.cluster.brokers.values())
        self.url = made.url

    async def kill_one(self) -> None:
        broker = self._left.pop(0)
        self._machine.kill([broker])
        await asyncio.sleep(_DEAD_SECONDS)
        await self._machine.start([broker])


@asynccontextmanager
async def brokers(folder: Path, tier: str, *, embedded: bool) -> AsyncIterator[Brokers]:
    """Start them in a new folder; they are killed at the end."""
    folder.mkdir(parents=True)
    if embedded:
        with SulinaProcess(folder / "data", "--tier", tier, *_SETTINGS) as process:
            yield OneProcess(process)
        return
    counts = ClusterSize(brokers=3, storage=3, etcd=1)
    options = {"storage": ("--tier", tier), "broker": _SETTINGS}
    async with machine(folder, counts, **options) as made:
        yield Cluster(made)


@dataclass(slots=True)
class CatalogProcess:
    """A REST catalog that can be away."""

    server: EmulatorServer
    logs: Sequence[Path] = ()
    """Of the committers."""

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def failures(self) -> int:
        """How often committers could not reach it."""
        return sum(log.read_text().count("trying again") for log in self.logs)

    async def away_for(self, seconds: float) -> None:
        """Kill it, and start it again after ``seconds``, once a committer has noticed."""
        before = self.failures
        self.server.kill()
        await asyncio.sleep(seconds)
        async with asyncio.timeout(_NOTICED_SECONDS):
            while self.failures == before:
                await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(self.server.start)


@contextmanager
def committers(folder: Path, count: int, topic: str, every: float) -> Iterator[list[Path]]:
    """So many processes that keep a topic's table up to date; gives their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        logs = [folder / f"committer-{number}.log" for number in range(count)]
        command = (sys.executable, "-m", "sulina.cli", "table", "backfill", topic)
        for log in logs:
            child = ChildProcess((*command, "--every", f"{every:g}", "--json"), log)
            stack.callback(child.kill)
            child.start()
        yield logs
