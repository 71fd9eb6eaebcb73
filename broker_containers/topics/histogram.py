"""Publish latency, which the broker measures and ``metrics`` reports.

Some of the measured frames become exemplars: examples whose traces show where the time went. The
broker has to open a frame to learn whether it has a trace, so it looks at few of them, and only at
small ones with attributes.
"""

from __future__ import annotations

from typing import Final

from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import SulinaError
from sulina.metrics.histogram import LATENCY_MS, Exemplar, Histogram
from sulina.runtime.logs import sampled_trace
from sulina.runtime.seam import Clock
from sulina.runtime.traces import TRACE_PARENT
from sulina.wire.decode import Frame
from sulina.wire.header import HAS_ATTRIBUTES

_LOOK_EVERY_SECONDS: Final = 0.2
_MOST_BYTES: Final = 256 << 10


class PublishLatency:
    """Publish latency of all topics of a broker; used once per frame, never once per record."""

    __slots__ = ("_clock", "_next_look", "seen")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_look = 0.0
        self.seen = Histogram(LATENCY_MS)
        """In milliseconds."""

    def begin(self) -> float:
        """A frame arrived; pass the result to ``end``."""
        return self._clock.now()

    def end(self, began: float, of_topic: Histogram, frame: CachedFrame) -> None:
        """The frame is durable; counts it for its topic, too."""
        now = self._clock.now()
        took = (now - began) * 1000
        self.seen.add(took)
        of_topic.add(took)
        header = frame.header
        if (
            header.flags & HAS_ATTRIBUTES
            and now >= self._next_look
            and header.raw_length <= _MOST_BYTES
        ):
            self._next_look = now + _LOOK_EVERY_SECONDS
            trace = _trace_of(frame)
            if trace:
                self.seen.exemplify(Exemplar(trace, took, self._clock.wall_us() / 1e6))


def _trace_of(frame: CachedFrame) -> str:
    """The trace of the first record that has one which is recorded; empty if none has."""
    try:
        attributes = Frame(frame.data, frame.header).attributes or ()
    except SulinaError:
        return ""  # a frame that only its consumers can open, such as of another compression
    traces = (sampled_trace(each.get(TRACE_PARENT, "")) for each in attributes)
    return next(filter(None, traces), "")
