"""Producers and consumers under chaos: those of tests.faults, with their pauses measured."""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import sulina
from sulina import Client, Ticket
from sulina.errors import Retriable, SulinaError, UnknownOutcome
from tests.chaos.arena import Broken
from tests.faults.model import Sender
from tests.faults.workload import Workload


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
