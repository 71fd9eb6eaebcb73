"""How long frames take from their arrival at a topic until they are durable."""

from __future__ import annotations

from broker_containers.metrics.histogram import LATENCY_MS, Histogram
from sulina.runtime.seam import Clock


class PublishLatency:
    """Shared by the topics of a broker; used once a frame, never once a record."""

    __slots__ = ("_clock", "seen")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LATENCY_MS)
        """In milliseconds."""

    def begin(self) -> float:
        """A frame came; give what this returns to ``end``."""
        return self._clock.now()

    def end(self, began: float) -> None:
        """The frame is durable."""
        self.seen.add((self._clock.now() - began) * 1000)
