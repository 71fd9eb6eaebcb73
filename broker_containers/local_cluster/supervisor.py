"""Runs the processes of a cluster on one machine: starts, restarts and stops them.

A process that ends unexpectedly is restarted after a delay that doubles while it keeps ending. No
process outlives the supervisor.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self

from broker_containers.local_cluster.processes import LocalCluster, ManagedProcess, last_line
from sulina.errors import SulinaError
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tasks import stop_tasks

_POLL_SECONDS: Final = 0.1
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STEADY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_ETCD_STOP_SECONDS: Final = 2.0
"""Short: the last members wait in vain for a new leader, and their data is on disk."""


@dataclass(frozen=True, slots=True)
class ProcessEvent:
    """A change of a process's state."""

    event: Literal["ended", "started", "failed"]
    process: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.process} {self.why}"


class Supervisor:
    """Use as ``async with``: all processes are ready on entry, and ended on exit.

    Entry raises ``Unavailable`` or ``Refused`` if a process can't be started, and kills the others.
    ``tell`` is called with later events.
    """

    def __init__(self, cluster: LocalCluster, tell: Callable[[ProcessEvent], None]) -> None:
        self.cluster = cluster
        self._tell = tell
        self._clock = RealClock()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            for tier in self.cluster.tiers:
                await self._start(tier.values())
        except BaseException:
            self.kill()
            raise
        self._tasks = [
            asyncio.create_task(self._keep(process), name=f"keep {name}")
            for name, process in self.cluster.processes.items()
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await stop_tasks(*self._tasks)
        try:
            # Dependents stop first. All brokers at once, so that none waits for another to take
            # its topics. etcd is last, since the others need it until they have stopped.
            await self._stop(self.cluster.brokers.values(), _STOP_SECONDS)
            await self._stop(self.cluster.storage.values(), _STOP_SECONDS)
            await self._stop(self.cluster.etcd.values(), _ETCD_STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill everything; acknowledged records are on disk."""
        for process in self.cluster.processes.values():
            process.child.kill()

    async def _start(self, tier: Iterable[ManagedProcess]) -> None:
        for process in tier:
            process.child.start()
        async with asyncio.TaskGroup() as waiting:
            for process in tier:
                waiting.create_task(process.ready())

    async def _stop(self, group: Iterable[ManagedProcess], seconds: float) -> None:
        for process in group:
            process.child.ask_to_end()
        end = self._clock.now() + seconds
        for process in group:
            await process.child.stop(self._clock, max(end - self._clock.now(), 0))

    async def _keep(self, process: ManagedProcess) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.now()
            while process.child.running:
                await self._clock.sleep(_POLL_SECONDS)
            if self._clock.now() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            why = f"{_ending(process)}: restarting in {pause:g} s"
            self._tell(ProcessEvent("ended", process.name, why))
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                process.child.start()
                await process.ready()
            except SulinaError as error:
                self._tell(ProcessEvent("failed", process.name, f"is not ready: {error}"))
            else:
                self._tell(ProcessEvent("started", process.name, "is ready again"))


def _ending(process: ManagedProcess) -> str:
    code = process.child.exit_code
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} ({last_line(process.child)}; its log is {process.log})"
