"""One run: producers and consumers with measured pauses, faults for some time, then the checks."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sulina
from broker_containers.local_cluster.ports import ClusterSize
from sulina import Client, Ticket
from sulina.errors import Retriable, SulinaError, UnknownOutcome
from tests.chaos.arena import PATIENCE, Arena, Broken, arena
from tests.chaos.faults import FAULTS, Fault, choose
from tests.chaos.report import Report, Round
from tests.faults.model import Sender
from tests.faults.workload import Workload

_SETTLE_SECONDS = 300.0
_CALM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """What to do."""

    seconds: float
    seed: int
    counts: ClusterSize = field(default_factory=ClusterSize)
    loads: int = 2
    lease: int = 4
    faults: tuple[Fault, ...] = FAULTS


async def run(task: Task, folder: Path, tell: Callable[[str], None]) -> Report:
    """Never raises what the cluster did wrong: the report has it."""
    report = Report(task.seed, task.lease)
    began = time.monotonic()
    loads: list[ChaosLoad] = []
    try:
        async with arena(folder, task.counts, task.lease) as place:
            tell(f"{7 * ' '}    {len(place.cluster.processes)} processes run, data in {folder}")
            try:
                async with chaos_loads(place.url, task.seed, task.loads) as loads:
                    await _harm(task, place, loads, report, tell)
                    await _check(place, loads, tell)
            finally:
                report.violations += place.broken
        report.violations += _tracebacks(place)
    except Exception as error:
        report.violations += dict.fromkeys(_sentences(error))
    report.seconds = time.monotonic() - began
    for load in loads:
        report.sent += load.sent
        report.failed_publishes += load.failed
        report.acknowledged += sum(map(len, load.beats.values()))
        report.consumed += sum(
            len(received.acked) for parts in load.received.values() for received in parts.values()
        )
    return report


async def _harm(
    task: Task,
    place: Arena,
    loads: list[ChaosLoad],
    report: Report,
    tell: Callable[[str], None],
) -> None:
    start = time.monotonic()
    await _recovered(loads, start)
    number = 0
    while time.monotonic() - start < task.seconds:
        # Each round has numbers of its own, so that its faults do not depend on timing.
        number += 1
        rng = random.Random(f"round {task.seed} {number}")
        await asyncio.sleep(_CALM_SECONDS)
        begin = time.monotonic()
        chosen = choose(rng, task.faults)
        whom = await asyncio.gather(
            *(_one(fault, place, random.Random(rng.random())) for fault in chosen)
        )
        undone = time.monotonic()
        await _recovered(loads, undone)
        pause, whose = max(load.pause(begin, time.monotonic()) for load in loads)
        kinds = tuple(fault.kind for fault in chosen)
        report.rounds.append(Round(begin - start, kinds, tuple(whom), undone - begin, pause, whose))
        tell(str(report.rounds[-1]))


async def _one(fault: Fault, place: Arena, rng: random.Random) -> str:
    hold = rng.uniform(0.2, 2.5 * place.lease)
    async with fault.do(place, rng) as whom:
        await asyncio.sleep(hold)
    return whom


async def _recovered(loads: list[ChaosLoad], since: float) -> None:
    """Wait until every producer gets acknowledgements again."""
    try:
        async with asyncio.timeout(PATIENCE):
            for load in loads:
                await load.all_stored(since)
    except TimeoutError:
        waiting = [
            f"{sender.name} of {sender.topic}"
            for load in loads
            for sender in load.model.senders.values()
            if not load.beats[sender.name] or load.beats[sender.name][-1] <= since
        ]
        raise Broken(
            f"{PATIENCE:g} s after everything was well again, these publish nothing: {waiting}"
        ) from None


async def _check(place: Arena, loads: list[ChaosLoad], tell: Callable[[str], None]) -> None:
    tell(f"{7 * ' '}    the end: all brokers are killed once more, and everything is read back")
    for load in loads:
        await load.stop_sending()
    # What consumers forgot on purpose comes again, and nothing is left in a cache.
    await place.restart_brokers()
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            for load in loads:
                await load.settle_at_last()
    except TimeoutError:
        missing = [
            f"{subscription} of {part}: {received.prefix}"
            for load in loads
            for subscription, parts in load.received.items()
            for part, received in parts.items()
        ]
        raise Broken(
            f"after {_SETTLE_SECONDS:g} s not all records were consumed; up to: {missing}"
        ) from None


def _tracebacks(place: Arena) -> Iterator[str]:
    for process in place.cluster.processes.values():
        lines = process.log.read_text(errors="replace").splitlines()
        for before, line in itertools.pairwise(lines):
            # gRPC logs an error of its own when a caller is killed in the middle of a call.
            if line.startswith("Traceback") and "grpc._cython.cygrpc" not in before:
                yield f"{process.name} met something unforeseen ({before}): see {process.log}"
                break


def _sentences(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _sentences(each)
    else:
        yield str(error) if isinstance(error, AssertionError) else repr(error)


class ChaosLoad(Workload):
    """A load that notes when each producer was told that a record is stored."""

    def __init__(self, client: Client, rng: random.Random, suffix: str) -> None:
        super().__init__(client, rng, suffix)
        self.beats: dict[str, list[float]] = defaultdict(list)
        """Producer -> when it was told."""
        self.failed = 0
        """Publishes that ended with an error, however long they were retried."""

    async def _note(self, sender: Sender, number: int, ticket: Ticket) -> None:
        try:
            await super()._note(sender, number, ticket)
        except SulinaError as error:
            self.failed += 1
            raise Broken(f"{sender.name} {number} to {sender.topic} failed: {error}") from None
        self.beats[sender.name].append(time.monotonic())

    @property
    def sent(self) -> int:
        return sum(sender.count for sender in self.model.senders.values())

    def pause(self, begin: float, end: float) -> tuple[float, str]:
        """The longest time that a producer waited for news, of those that touch these moments,
        and which producer that was."""
        longest = 0.0, ""
        for name, beats in self.beats.items():
            first = max(bisect_left(beats, begin) - 1, 0)
            last = min(bisect_left(beats, end) + 1, len(beats))
            gaps = zip(beats[first:last], beats[first + 1 : last], strict=False)
            whose = f"{name} of {self.model.senders[name].topic}"
            longest = max(longest, *((after - before, whose) for before, after in gaps), (0.0, ""))
        return longest

    async def all_stored(self, since: float) -> None:
        """Wait until each producer was told of records after ``since``."""
        while any(
            not (beats := self.beats[name]) or beats[-1] <= since for name in self.model.senders
        ):
            await asyncio.sleep(0.02)

    async def settle_at_last(self) -> None:
        """As ``settle``; what the cluster can't answer yet is asked again."""
        while True:
            try:
                return await self.settle()
            except (Retriable, UnknownOutcome):
                await asyncio.sleep(0.2)


@asynccontextmanager
async def chaos_loads(url: str, seed: int, count: int) -> AsyncIterator[list[ChaosLoad]]:
    """Loads at work, each with a client of its own. What goes wrong in one comes out of here."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(sulina.connect(url, operation_timeout=60.0))
            for _ in range(count)
        ]
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        loads = []
        for number, client in enumerate(clients, 1):
            load = ChaosLoad(client, random.Random(f"load {seed} {number}"), f"-{number}")
            await load.start(tasks)
            loads.append(load)
        yield loads
