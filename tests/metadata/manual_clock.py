"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

_TURNS = 50  # of the event loop: enough for tasks in memory to go as far as they can


class ManualClock:
    """``seam.Clock`` whose time passes only in ``advance``."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def wall_us(self) -> int:
        return int(self._now * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking sleepers one after the other at their own times."""
        end = self._now + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, waiter = heapq.heappop(self._sleepers)
            self._now = max(self._now, due)
            if not waiter.done():
                waiter.set_result(None)
            await _settle()
        self._now = end


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
