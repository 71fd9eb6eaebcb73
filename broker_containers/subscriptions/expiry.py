"""Which records of a frame no subscription delivers any more, because nobody took them in time.

A frame may have an expiry time of its own, and its topic may have a time to live (``ttl_ms``),
which counts from a record's publish time or, if that is later, its delivery time. Frames without
either cost two comparisons. Times are wall-clock times in microseconds since 1970.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import Refused
from sulina.runtime.seam import Clock
from sulina.wire import selection
from sulina.wire.decode import Frame
from sulina.wire.header import DELAYED, EXTENDED, HAS_TIMES, MAX_TIME_US, read_due, read_expiry


class Lifetime(NamedTuple):
    """What decides when the last record of a frame expires, whatever its topic's time to live."""

    expires_us: int | None
    """Its own expiry time."""
    since_us: int
    """From when on its topic's time to live counts."""

    def end(self, ttl_ms: int) -> int | None:
        """When the last record expires; None if that is never."""
        if not ttl_ms:
            return self.expires_us
        end = self.since_us + ttl_ms * 1000
        return end if self.expires_us is None else min(end, self.expires_us)

    def over(self, ttl_ms: int, wall_us: int) -> bool:
        """Whether all records have expired."""
        end = self.end(ttl_ms)
        return end is not None and end <= wall_us


ENDLESS: Final = Lifetime(None, MAX_TIME_US)


def lifetime(frame: CachedFrame) -> Lifetime:
    header = frame.header
    if not header.flags & (EXTENDED | DELAYED):
        return Lifetime(None, header.last_time)
    due_us = read_due(frame.data, header) or 0
    return Lifetime(read_expiry(frame.data, header), max(header.last_time, due_us))


def expired_records(frame: CachedFrame, ttl_ms: int, clock: Clock) -> int:
    """The selection of a frame's records that have expired by now."""
    header = frame.header
    if not ttl_ms and not header.flags & EXTENDED:
        return 0
    now_us = clock.wall_us()
    if lifetime(frame).over(ttl_ms, now_us):
        return selection.whole(header.count)
    since_us = now_us - ttl_ms * 1000
    if not ttl_ms or not header.flags & HAS_TIMES or header.first_time > since_us:
        return 0
    due_us = read_due(frame.data, header)
    if due_us is not None and due_us > since_us:
        return 0
    # Only now, while a frame expires record by record, it is opened.
    try:
        times = Frame(frame.data, header).times
    except Refused:
        return 0  # a frame that cannot be opened is delivered until all of it has expired
    return sum(1 << number for number, time in enumerate(times) if time <= since_us)
