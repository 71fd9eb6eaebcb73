"""Moves a topic while publishing to it, and measures how long records wait.

A producer sends a record every 5 ms. The pause of a move is the longest time from send to
acknowledgement of a record around it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.cluster.processes import ask, connect, measured_cluster
from benchmarks.stats import percentile
from broker_containers.local_cluster.ports import ClusterSize
from sulina import Producer, Ticket

TOPIC = "/default/moved"
_SPACE = 0.005


class _MeasuredStream:
    """Sends continuously and measures how long each record takes."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.took: list[tuple[float, float]] = []
        """Send time and duration per record."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as waiting:
            while True:
                sent = time.monotonic()
                ticket = await self._producer.send(b"x" * 100)
                waiting.create_task(self._wait(sent, ticket))
                await asyncio.sleep(_SPACE)

    async def _wait(self, sent: float, ticket: Ticket) -> None:
        await ticket
        self.took.append((sent, time.monotonic() - sent))

    def longest(self, begin: float, end: float) -> float:
        return max(took for sent, took in self.took if begin - 1 <= sent <= end)


async def moves(count: int) -> dict[str, Any]:
    """The pauses of ``count`` planned moves, and the same without a move, in seconds."""
    async with (
        measured_cluster(ClusterSize(3, 3, 3)) as cluster,
        connect(cluster) as client,
        client.producer(TOPIC, send_timeout=300.0) as producer,
    ):
        await (await producer.send(b"first"))
        stream = _MeasuredStream(producer)
        sending = asyncio.create_task(stream.run())
        pauses, quiet = [], []
        for _ in range(count):
            await asyncio.sleep(1.5)
            now = time.monotonic()
            quiet.append(stream.longest(now - 1, now))
            began = time.monotonic()
            target = (await ask(client, "topic.move", topic=TOPIC))["target"]
            while True:
                found = await ask(client, "topic.lookup", topic=TOPIC)
                if found["broker"] == target and not found["moving_to"]:
                    break
                await asyncio.sleep(0.02)
            await asyncio.sleep(1.0)
            pauses.append(stream.longest(began, time.monotonic()))
        sending.cancel()
        await asyncio.wait((sending,))
        return {
            "moves": count,
            "pause_p50": percentile(sorted(pauses), 0.5),
            "pause_p99": percentile(sorted(pauses), 0.99),
            "pause_max": max(pauses),
            "without_a_move_p50": percentile(sorted(quiet), 0.5),
            "without_a_move_max": max(quiet),
        }
