"""How late the event loop is: the first sign of a broker with too much to do."""

from __future__ import annotations

from broker_containers.metrics.histogram import LAG_SECONDS, Histogram
from sulina.runtime.seam import Clock

_EVERY_SECONDS = 0.25


class LoopLag:
    """Sleeps again and again, and notes by how much it woke up too late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LAG_SECONDS)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wanted = self._clock.now() + _EVERY_SECONDS
            await self._clock.sleep(_EVERY_SECONDS)
            self.seen.add(max(self._clock.now() - wanted, 0.0))
