"""The clock of the machine."""

from __future__ import annotations

import asyncio
import time


class RealClock:
    """``seam.Clock`` over the monotonic clock, the wall clock and asyncio's timers."""

    __slots__ = ()

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return time.monotonic()

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(seconds)
