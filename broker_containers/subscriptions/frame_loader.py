"""Loads a subscription's frames for delivery: delayed ones that are due, and the next in the log.

A frame with a future delivery time, by the wall clock, is only tracked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.frame_reader import FrameGone, FrameReader, SubscribedTopic
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import Refused
from sulina.model import SubscriptionType
from sulina.runtime.seam import Buffer, Clock
from sulina.wire.decode import Frame, read_producer_name, read_slots
from sulina.wire.encode import key_slot
from sulina.wire.header import HAS_PRODUCERS, FrameHeader, parse_header, read_due

_LOOK_AT_WALL: Final = 30.0
"""Seconds after which delayed frames are checked, in case the wall clock was adjusted."""
_SOONEST: Final = 0.001


class FrameLoader:
    """Passes frames to the dispatcher; calls ``moved`` when loading alone moves the cursor."""

    def __init__(
        self,
        source: SubscribedTopic,
        dispatcher: Dispatcher,
        reading: FrameReader,
        clock: Clock,
        moved: Callable[[], None],
    ) -> None:
        self._source = source
        self._dispatcher = dispatcher
        self._reading = reading
        self._clock = clock
        self._moved = moved
        self._one_too_many = -1, 0
        """Offset and delivery time of a delayed frame beyond the limit of tracked frames."""

    def load_next(self) -> bool:
        """Load a frame if it is useful and in memory; start reading it if it is not in memory."""
        return self._dispatcher.wants_more and (self._load_due() or self._load_new())

    def _load_due(self) -> bool:
        """Load the delayed frame that is due next."""
        delays = self._dispatcher.window.delays
        if not len(delays):
            return False
        wall_us = self._clock.wall_us()
        base = delays.due(wall_us)
        if base is None:
            return False
        try:
            frame = self._reading.at(base, lambda other: delays.is_due(other, wall_us))
        except FrameGone:
            self._dispatcher.counters.skipped += self._dispatcher.window.forget_delayed(base)
            self._moved()
            return True
        if frame is not None:
            self._load(frame, timed=True)
        return frame is not None

    def _load_new(self) -> bool:
        """Load the frame at the read offset, or track it until it is due."""
        window = self._dispatcher.window
        if window.read_offset >= self._source.log.end or self._stands_at_one_too_many():
            return False
        self._skip_what_is_gone()
        window.pass_done()
        if window.read_offset >= self._source.log.end:
            return False
        frame = self._reading.next(window.read_offset)
        if frame is None:
            return False
        if frame.base > window.read_offset:
            self._skip(frame.base)
        due_us = read_due(frame.data, frame.header)
        if due_us is None or due_us <= self._clock.wall_us():
            self._load(frame, timed=due_us is not None)
        elif self._dispatcher.may_delay:
            window.delay(frame.base, frame.header.count, due_us)
        else:
            self._one_too_many = window.read_offset, due_us
            return False
        return True

    def _stands_at_one_too_many(self) -> bool:
        """Whether the next frame is delayed and no more of them can be tracked."""
        offset, due_us = self._one_too_many
        return (
            offset == self._dispatcher.window.read_offset
            and not self._dispatcher.may_delay
            and due_us > self._clock.wall_us()
        )

    def _load(self, frame: CachedFrame, *, timed: bool) -> None:
        header, data = frame.header, frame.data
        slots: bytes | int = 0
        keys = None
        if self._dispatcher.type is SubscriptionType.KEY_SHARED:
            name = read_producer_name(data, header)
            slots = read_slots(data, header) or _slots_of(data, header, name)
            if self._dispatcher.needs_keys:
                keys = _keys_of(data, name)
        if self._dispatcher.load(
            header.base_offset, header.count, header.size, slots, keys, timed=timed
        ):
            self._reading.keep(frame)
        else:
            self._moved()  # it was acknowledged before it was loaded

    def _skip_what_is_gone(self) -> None:
        """Skip what retention deleted or, on a NonReliable topic, the cache evicted."""
        start = self._source.log.start if self._dispatcher.reliable else self._source.tail.first
        # An empty tail skips nothing: a frame that was just appended is about to be in it.
        if start is not None and self._dispatcher.window.read_offset < start:
            self._skip(start)

    def _skip(self, offset: int) -> None:
        window = self._dispatcher.window
        self._dispatcher.counters.skipped += offset - window.read_offset
        window.skip_to(offset)

    def next_look(self, now: float) -> float:
        """When to check delayed frames again.

        Frames that are due now were loaded, or wait for credit or a read, which wakes the loader.
        """
        due_us = self._dispatcher.window.delays.next_due_us
        if due_us is not None and self._stands_at_one_too_many():
            due_us = min(due_us, self._one_too_many[1])
        left_us = 0 if due_us is None else due_us - self._clock.wall_us()
        return now + min(max(left_us / 1e6, _SOONEST), _LOOK_AT_WALL) if left_us > 0 else NEVER


def _slots_of(data: Buffer, header: FrameHeader, producer: str) -> bytes | int:
    """The slots of a frame without keys: those of its producers."""
    if header.flags & HAS_PRODUCERS:
        try:
            return bytes([key_slot(name.encode()) for name in Frame(data, header).producers])
        except Refused:
            pass  # as in `_keys_of`
    return key_slot(producer.encode())


def _keys_of(data: Buffer, producer: str) -> list[str]:
    """The key of each record as text; the producer's name for records without a key.

    The producer's name as well for all records of a frame that cannot be decoded: it is
    delivered like any other, since a bad frame must not block a subscription.
    """
    try:
        frame = Frame(data)
    except Refused:
        return [producer] * parse_header(data).count
    keys = frame.keys or [None] * frame.count
    return [
        producer if key is None else key.decode(errors="replace")
        for key, producer in zip(keys, frame.producers, strict=True)
    ]
