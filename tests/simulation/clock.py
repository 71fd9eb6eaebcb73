"""The clocks of simulated machines: one time for all, wall clocks that jump."""

from __future__ import annotations

import asyncio

from tests.simulation.loop import SimLoop

_EPOCH_US = 1_700_000_000_000_000


class SimClock:
    """``seam.Clock`` of one machine."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.jumped_us = 0
        """How far the wall clock is off."""

    def now(self) -> float:
        return self._loop.time()

    def wall_us(self) -> int:
        return _EPOCH_US + int(self._loop.time() * 1_000_000) + self.jumped_us

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
