"""Loads a subscription's frames for delivery: delayed ones that are due, and the next in the log.

A frame with a future delivery time, by the wall clock, is only tracked. One that has expired is
passed over, also while nobody takes anything (:meth:`FrameLoader.pass_expired`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.subscriptions.dispatcher import Dispatcher
from broker_containers.subscriptions.due_times import NEVER
from broker_containers.subscriptions.expiring import expire
from broker_containers.subscriptions.expiry import lifetime
from broker_containers.subscriptions.frame_reader import FrameGone, FrameReader, SubscribedTopic
from broker_containers.subscriptions.loaded_frame import LoadedFrame
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import Refused
from sulina.model import SubscriptionType
from sulina.runtime.seam import Buffer, Clock
from sulina.wire.decode import Frame, read_producer_name, read_slots
from sulina.wire.encode import key_slot
from sulina.wire.header import EXTENDED, HAS_PRODUCERS, FrameHeader, parse_header, read_due

_LOOK_AT_WALL: Final = 30.0
"""Seconds after which delayed frames are checked, in case the wall clock was adjusted."""
_SOONEST: Final = 0.001
_MOST_LETTERS: Final = 64
"""Dead letters that may wait before more frames are passed over."""


class FrameLoader:
    """Passes frames to the dispatcher; calls ``moved`` when loading alone moves the cursor, and
    ``load_again`` when frames are no longer what they were."""

    def __init__(
        self,
        source: SubscribedTopic,
        dispatcher: Dispatcher,
        reading: FrameReader,
        clock: Clock,
        moved: Callable[[], None],
        load_again: Callable[[], None],
    ) -> None:
        self._source = source
        self._dispatcher = dispatcher
        self._reading = reading
        self._clock = clock
        self._moved = moved
        self._load_again = load_again
        self._one_too_many = -1, 0
        """Offset and delivery time of a delayed frame beyond the limit of tracked frames."""
        self._unexpired: tuple[int, int, int | None] | None = None
        """Read offset, time to live and expiry time of the last frame that had not expired."""

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
            if base >= self._source.log.start:
                self._load_again()  # compaction cut it to smaller ones
                return True
            self._dispatcher.counters.skipped += self._dispatcher.window.forget_delayed(base)
            self._moved()
            return True
        if frame is not None and self._is_part(frame):
            self._load_again()
        elif frame is not None and self._expired(frame):
            self._expire(frame, timed=True)
        elif frame is not None:
            self._load(frame, timed=True)
        return frame is not None

    def _is_part(self, frame: CachedFrame) -> bool:
        """Whether compaction cut a delayed frame to smaller ones, of which this is the first."""
        return frame.header.count < self._dispatcher.window.delays[frame.base].count

    def pass_expired(self) -> bool:
        """Pass over the next frame if it has expired and is in memory; start reading it if not.

        False if there is nothing to pass over now, or too many dead letters wait.
        """
        dispatcher = self._dispatcher
        window, ttl_ms = dispatcher.window, self._source.policy.ttl_ms
        if not dispatcher.reliable or len(dispatcher.dead_letters) >= _MOST_LETTERS:
            return False
        late = window.delays.expired(ttl_ms, self._clock.wall_us())
        if late is not None:
            return self._expire_delayed(late)
        if self._unexpired is not None and self._unexpired[:2] == (window.read_offset, ttl_ms):
            expires_us = self._unexpired[2]
            if expires_us is None or expires_us > self._clock.wall_us():
                return False
        frame = self._next()
        if frame is None:
            return False
        due_us = read_due(frame.data, frame.header)
        if due_us is not None and due_us > self._clock.wall_us():
            return self._delay(frame, due_us)
        if self._expired(frame):
            self._expire(frame, timed=due_us is not None)
            return True
        self._unexpired = window.read_offset, ttl_ms, lifetime(frame).end(ttl_ms)
        return False

    def _expire_delayed(self, base: int) -> bool:
        """Pass over a delayed frame; False if it is to become dead letters and must be read."""
        window = self._dispatcher.window
        if not self._dispatcher.policy.dead_letter_expired:
            self._dispatcher.counters.expired += window.forget_delayed(base)
            self._moved()
            return True
        try:
            frame = self._reading.at(base)
        except FrameGone:
            self._dispatcher.counters.skipped += window.forget_delayed(base)
            self._moved()
            return True
        if frame is not None and self._is_part(frame):
            self._load_again()
        elif frame is not None:
            self._expire(frame, timed=True)
        return frame is not None

    def _expired(self, frame: CachedFrame) -> bool:
        """Whether all records of a frame have expired."""
        ttl_ms = self._source.policy.ttl_ms
        if not ttl_ms and not frame.header.flags & EXTENDED:
            return False
        return lifetime(frame).over(ttl_ms, self._clock.wall_us())

    def _expire(self, frame: CachedFrame, *, timed: bool) -> None:
        """Pass over an expired frame, or load it to become dead letters."""
        dispatcher, header = self._dispatcher, frame.header
        window = dispatcher.window
        if dispatcher.policy.dead_letter_expired and dispatcher.reliable:
            loaded = self._load(frame, timed=timed)
            if loaded is not None:
                expire(dispatcher, loaded, loaded.undone)
        elif header.base_offset in window.delays:
            dispatcher.counters.expired += window.forget_delayed(header.base_offset)
        else:
            passed = window.pass_next(header.base_offset, header.count)
            dispatcher.counters.expired += passed
        self._moved()

    def _load_new(self) -> bool:
        """Load the frame at the read offset, or track it until it is due."""
        frame = self._next()
        if frame is None:
            return False
        due_us = read_due(frame.data, frame.header)
        if due_us is not None and due_us > self._clock.wall_us():
            return self._delay(frame, due_us)
        if self._expired(frame):
            self._expire(frame, timed=due_us is not None)
        else:
            self._load(frame, timed=due_us is not None)
        return True

    def _next(self) -> CachedFrame | None:
        """The frame at the read offset, if there is one and it is in memory."""
        window = self._dispatcher.window
        if window.read_offset >= self._source.log.end or self._stands_at_one_too_many():
            return None
        self._skip_what_is_gone()
        window.pass_done()
        if window.read_offset >= self._source.log.end:
            return None
        frame = self._reading.next(window.read_offset)
        if frame is not None and frame.base > window.read_offset:
            self._skip(frame.base)
        return frame

    def _delay(self, frame: CachedFrame, due_us: int) -> bool:
        """Track a frame until it is due, if one more may be tracked."""
        window = self._dispatcher.window
        if not self._dispatcher.may_delay:
            self._one_too_many = window.read_offset, due_us
            return False
        window.delay(frame.base, frame.header.count, due_us, lifetime(frame))
        return True

    def _stands_at_one_too_many(self) -> bool:
        """Whether the next frame is delayed and no more of them can be tracked."""
        offset, due_us = self._one_too_many
        return (
            offset == self._dispatcher.window.read_offset
            and not self._dispatcher.may_delay
            and due_us > self._clock.wall_us()
        )

    def _load(self, frame: CachedFrame, *, timed: bool) -> LoadedFrame | None:
        header, data = frame.header, frame.data
        slots: bytes | int = 0
        keys = None
        if self._dispatcher.type is SubscriptionType.KEY_SHARED:
            name = read_producer_name(data, header)
            slots = read_slots(data, header) or _slots_of(data, header, name)
            if self._dispatcher.needs_keys:
                keys = _keys_of(data, name)
        loaded = self._dispatcher.load(
            header.base_offset,
            header.count,
            header.size,
            slots,
            keys,
            timed=timed,
            life=lifetime(frame),
        )
        if loaded is not None:
            self._reading.keep(frame)
        else:
            self._moved()  # it was acknowledged before it was loaded
        return loaded

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
