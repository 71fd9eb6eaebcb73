"""The newest frames of all topics of a broker, in memory, bounded in bytes.

Serves consumers at the tail. At the limit the oldest frame of the whole broker is evicted;
consumers that still need it read it from storage.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from sulina.runtime.seam import Buffer
from sulina.wire.header import FrameHeader

_OBJECTS = 1024


class CachedFrame(NamedTuple):
    """A frame with its parsed header. A tuple, because one is created per frame."""

    header: FrameHeader
    data: Buffer

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def cost(self) -> int:
        """Approximate memory; small frames cost more than their bytes."""
        return self.header.size + _OBJECTS


class TailCache:
    """Shared by the topics of a broker; each topic uses its own :class:`TopicTail`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.bytes = 0
        self._order: OrderedDict[tuple[TopicTail, int], int] = OrderedDict()
        """The cost of each frame by topic and base offset, oldest first."""

    def tail(self) -> TopicTail:
        """A new topic's part of the cache."""
        return TopicTail(self)

    def resize(self, limit: int) -> None:
        """Change the limit in bytes; evicts immediately."""
        self._limit = limit
        self._make_room()

    def added(self, tail: TopicTail, frame: CachedFrame) -> None:
        place = tail, frame.base
        self.removed(*place)
        self._order[place] = frame.cost
        self.bytes += frame.cost
        self._make_room()

    def _make_room(self) -> None:
        while self.bytes > self._limit and len(self._order) > 1:
            oldest, base = next(iter(self._order))
            oldest.evict(base)

    def removed(self, tail: TopicTail, base: int) -> None:
        self.bytes -= self._order.pop((tail, base), 0)


class TopicTail:
    """The newest frames of one topic, by base offset."""

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        # OrderedDict: finding the first key of a dict is slow after many deletions at its start.
        self._frames: OrderedDict[int, CachedFrame] = OrderedDict()

    def add(self, frame: CachedFrame) -> None:
        self._frames[frame.base] = frame
        self._cache.added(self, frame)

    def at(self, base: int) -> CachedFrame | None:
        """The frame that starts at ``base``."""
        return self._frames.get(base)

    def holding(self, offset: int) -> CachedFrame | None:
        """The frame that contains ``offset``. Slow: use it to start, not for every step."""
        frame = self._frames.get(offset)
        if frame is not None:
            return frame
        for frame in reversed(self._frames.values()):
            if frame.base <= offset:
                return frame if offset < frame.header.next_offset else None
        return None

    @property
    def first(self) -> int | None:
        """The lowest cached base offset."""
        return next(iter(self._frames), None)

    def evict(self, base: int) -> None:
        """Called by the cache to free memory."""
        self._frames.pop(base, None)
        self._cache.removed(self, base)

    def drop_below(self, offset: int) -> None:
        """Forget frames that begin before ``offset``: what is stored has changed."""
        for base in [base for base in self._frames if base < offset]:
            self.evict(base)

    def clear(self) -> None:
        for base in list(self._frames):
            self.evict(base)
