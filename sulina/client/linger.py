"""Packs the drafts that have waited long enough for company. One task for all lanes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from sulina.client.batching import Draft
from sulina.runtime.seam import Clock

if TYPE_CHECKING:
    from sulina.client.lane import Lane


class Linger:
    """Every draft waits equally long, so they come due in the order in which they came."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._waiting: deque[tuple[float, Lane, Draft]] = deque()
        self._some = asyncio.Event()

    def watch(self, lane: Lane, draft: Draft) -> None:
        """``draft`` is open in ``lane`` from now on."""
        self._waiting.append((self._clock.now() + self.seconds, lane, draft))
        self._some.set()

    async def run(self) -> None:
        """For ever; the producer owns the task."""
        waiting = self._waiting
        while True:
            while waiting:
                due, lane, draft = waiting.popleft()
                # Most drafts fill up, or go when the way is free, before their time is over.
                if lane.draft is draft and (left := due - self._clock.now()) > 0:
                    await self._clock.sleep(left)
                if lane.draft is draft:
                    lane.seal()
            self._some.clear()
            await self._some.wait()
