"""Clocks of simulated machines: one virtual time, different rates, wall clocks that jump."""

from __future__ import annotations

import asyncio

from tests.simulation.loop import SimLoop

EPOCH_US = 1_700_000_000_000_000
"""The wall time at the start of a run."""


class SimClock:
    """``seam.Clock`` of one machine."""

    def __init__(self, loop: SimLoop, rate: float = 1.0) -> None:
        """``rate`` is its speed, 1.02 if 2 % too fast; the same as that of its machine."""
        self._loop = loop
        self.rate = rate
        self._jumped_us = 0
        self._seen_us = 0

    def now(self) -> float:
        return self._loop.time() * self.rate

    def wall_us(self) -> int:
        return EPOCH_US + int(self.now() * 1_000_000 * self._loop.calendar) + self._jumped_us

    def jump(self, off_us: int) -> None:
        """Set the error of the wall clock."""
        self._seen_us = self.latest_us
        self._jumped_us = off_us

    @property
    def latest_us(self) -> int:
        """The latest time that the wall clock has shown."""
        return max(self._seen_us, self.wall_us())

    def forget(self) -> None:
        """Reset ``latest_us`` for a new process."""
        self._seen_us = 0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
