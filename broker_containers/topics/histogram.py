"""Publish latency, which the broker measures and ``metrics`` reports."""

from __future__ import annotations

from sulina.metrics.histogram import LATENCY_MS, Histogram
from sulina.runtime.seam import Clock


class PublishLatency:
    """Publish latency of all topics of a broker; used once per frame, never once per record."""

    __slots__ = ("_clock", "seen")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen = Histogram(LATENCY_MS)
        """In milliseconds."""

    def begin(self) -> float:
        """A frame arrived; pass the result to ``end``."""
        return self._clock.now()

    def end(self, began: float, of_topic: Histogram) -> None:
        """The frame is durable; counts it for its topic, too."""
        took = (self._clock.now() - began) * 1000
        self.seen.add(took)
        of_topic.add(took)
