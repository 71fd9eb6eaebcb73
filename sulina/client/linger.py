"""Packs batches that have been open for the linger time. One task for all partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from sulina.client.batching import OpenBatch
from sulina.runtime.seam import Clock


class BatchPacker(Protocol):
    """The part of a producer that packs batches."""

    open_batch: OpenBatch | None

    def pack(self) -> None: ...


class Linger:
    """All batches linger equally long, so they come due in the order in which they were opened."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._waiting: deque[tuple[float, BatchPacker, OpenBatch]] = deque()
        self._some = asyncio.Event()

    def pack_later(self, part: BatchPacker, open_batch: OpenBatch) -> None:
        """Pack ``open_batch`` of ``part`` after the linger time, if it is still open then."""
        self._waiting.append((self._clock.now() + self.seconds, part, open_batch))
        self._some.set()

    async def run(self) -> None:
        """Runs until cancelled; the producer owns the task."""
        waiting = self._waiting
        while True:
            while waiting:
                due, part, open_batch = waiting.popleft()
                # Most batches fill up, or are sent because little is in flight, before that.
                if part.open_batch is open_batch and (left := due - self._clock.now()) > 0:
                    await self._clock.sleep(left)
                if part.open_batch is open_batch:
                    part.pack()
            self._some.clear()
            await self._some.wait()
