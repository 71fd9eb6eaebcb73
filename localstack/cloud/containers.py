"""Runs the tasks of the ECS services as processes, as many of each as the service wants.

A task that ends is started again, after a pause that doubles while it keeps ending. Members start
first; other tasks start when all members are ready. A task that is no longer wanted is asked to
stop, gets no new connections, and has the time of its definition to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from broker_containers.local_cluster.ports import LOCAL, ClusterPorts
from broker_containers.local_cluster.processes import last_line
from localstack.cloud.addresses import BINARY, ETCD, HTTP, STORAGE, AddressBook, ports_of
from localstack.cloud.definitions import (
    ServiceDefinition,
    inherited,
    secret_values,
    task_process,
)
from sulina.errors import Unavailable
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.25
_PROBE_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STEADY_SECONDS: Final = 60.0
_HEALTH: Final = {ETCD: "/health", HTTP: "/health/ready"}
"""What is requested to find out whether a server is ready, by the port in its container."""


@dataclass(slots=True, eq=False)
class Task:
    """One task of a service."""

    name: str
    service: ServiceDefinition
    ports: Mapping[int, int]
    """Ports on this machine by those in the container."""
    child: ChildProcess
    log: Path
    ready: bool = False
    stopping: asyncio.Task[None] | None = None
    started: float = 0.0
    pause: float = _FIRST_PAUSE
    restart_at: float | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Containers:
    """All tasks of the cluster. ``tell`` is called with a sentence when a task ends by itself."""

    account: Any
    cluster: str
    prefix: str
    services: Mapping[str, ServiceDefinition]
    ports: ClusterPorts
    book: AddressBook
    folder: Path
    variables: Mapping[str, str]
    """Variables for AWS's libraries, and further ones of brokers."""
    broker_arguments: tuple[str, ...]
    clock: Clock
    tell: Callable[[str], None]
    tasks: list[Task] = field(default_factory=list)
    desired: dict[str, int] = field(default_factory=dict)

    def serving(self, port: int) -> list[int]:
        """The ports here of all tasks that serve ``port`` and take new connections."""
        return [
            task.ports[port]
            for task in self.tasks
            if port in task.ports and task.ready and task.stopping is None and task.child.running
        ]

    def of(self, kind: str) -> list[Task]:
        """The tasks whose container is ``kind``: broker, storage or etcd."""
        return [each for each in self.tasks if each.service.container["name"] == kind]

    def count(self, service: str) -> tuple[int, int]:
        """How many tasks of an ECS service run, and how many are about to."""
        name = service.removeprefix(f"{self.prefix}-")
        tasks = [each for each in self.tasks if each.service.name == name and not each.stopping]
        running = sum(each.ready and each.child.running for each in tasks)
        return running, len(tasks) - running

    async def start(self) -> None:
        """Start all tasks and wait until they are ready.

        Raises ``Unavailable`` with the output of a task that is not ready in time.
        """
        self.desired = {name: each.desired for name, each in self.services.items()}
        for member in (True, False):
            wanted = {name for name, each in self.services.items() if each.member is member}
            await self._adjust(wanted)
            end = self.clock.now() + READY_SECONDS
            while not all(each.ready for each in self.tasks):
                await self._look_after()
                if self.clock.now() > end:
                    late = next(each for each in self.tasks if not each.ready)
                    raise Unavailable(
                        f"{late} was not ready within {READY_SECONDS:g} s: "
                        f"{last_line(late.child)}; its log is {late.log}"
                    )
                await self.clock.sleep(_POLL_SECONDS)

    async def run(self) -> None:
        """Follow the wanted numbers, and restart what ends, until cancelled."""
        names = {f"{self.prefix}-{name}": name for name, each in self.services.items()}
        scaled = [full for full, name in names.items() if not self.services[name].member]
        while True:
            described = await asyncio.to_thread(
                self.account.client("ecs").describe_services, cluster=self.cluster, services=scaled
            )
            for each in described["services"]:
                self.desired[names[each["serviceName"]]] = int(each["desiredCount"])
            await self._adjust({names[full] for full in scaled})
            await self._look_after()
            await self.clock.sleep(_POLL_SECONDS)

    async def stop(self, seconds: float) -> None:
        """Stop everything: first what depends on members, etcd last. Kills what is too slow."""
        try:
            for kind in ("broker", "storage", "etcd"):
                await self._stop_all(self.of(kind), 2.0 if kind == "etcd" else seconds)
        finally:
            for each in self.tasks:
                each.child.kill()

    async def _stop_all(self, tasks: Iterable[Task], seconds: float) -> None:
        for each in tasks:
            each.child.ask_to_end()
        end = self.clock.now() + seconds
        for each in tasks:
            await each.child.stop(self.clock, max(end - self.clock.now(), 0))

    async def _adjust(self, names: set[str]) -> None:
        for name in names:
            service, wanted = self.services[name], self.desired[name]
            running = [
                each for each in self.tasks if each.service is service and each.stopping is None
            ]
            for each in running[wanted:]:
                # The newest ones stop.
                each.stopping = asyncio.create_task(
                    each.child.stop(self.clock, service.stop_seconds), name=f"stop {each}"
                )
            for _ in range(wanted - len(running)):
                if not await self._add(service):
                    break

    async def _add(self, service: ServiceDefinition) -> bool:
        """Start another task; False if no name is free before one has stopped."""
        taken = {each.name for each in self.tasks}
        name = next((each for each in self._names(service) if each not in taken), None)
        if name is None:
            return False
        secrets = await asyncio.to_thread(secret_values, self.account, service.container)
        ports = ports_of(name, self.ports)
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        more = {**inherited(), **self.variables}
        process = task_process(service, name, ports, folder, self.book, secrets, more)
        command = list(process.command)
        if service.container["name"] == "broker":
            command += self.broker_arguments
        log = self.folder / f"{name}.log"
        child = ChildProcess(command, log, folder=folder, environment=process.environment)
        task = Task(name, service, ports, child, log)
        self.tasks.append(task)
        self._start(task)
        return True

    def _names(self, service: ServiceDefinition) -> Iterator[str]:
        return iter((service.name,) if service.member else self.ports.brokers)

    def _start(self, task: Task) -> None:
        task.started, task.restart_at = self.clock.now(), None
        task.child.start()

    async def _look_after(self) -> None:
        for task in list(self.tasks):
            if task.stopping is not None:
                if task.stopping.done():
                    task.stopping.result()
                    self.tasks.remove(task)
            elif not task.child.running:
                self._restart(task)
            elif not task.ready:
                task.ready = await self._is_ready(task)

    def _restart(self, task: Task) -> None:
        now = self.clock.now()
        if task.restart_at is None:
            if now - task.started > _STEADY_SECONDS:
                task.pause = _FIRST_PAUSE
            task.ready, task.restart_at = False, now + task.pause
            self.tell(f"{task} ended ({last_line(task.child)}): restarting in {task.pause:g} s")
            task.pause = min(2 * task.pause, _LONGEST_PAUSE)
        elif now >= task.restart_at:
            self._start(task)

    async def _is_ready(self, task: Task) -> bool:
        port = next(each for each in (ETCD, STORAGE, HTTP, BINARY) if each in task.ports)
        try:
            probe = _answers(task.ports[port], _HEALTH.get(port))
            return await within(self.clock, _PROBE_SECONDS, probe)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False


async def _answers(port: int, path: str | None) -> bool:
    """Whether the port accepts a connection and, with a path, answers 200."""
    reader, writer = await asyncio.open_connection(LOCAL, port)
    try:
        if path is None:
            return True
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOCAL}\r\nConnection: close\r\n\r\n".encode())
        return b" 200 " in await reader.readline()
    finally:
        writer.close()
