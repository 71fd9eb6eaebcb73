"""The newest frames of all topics of a broker, in memory, bounded in bytes.

Consumers at the tail are served from here. When the bound is reached the oldest frame of the
whole broker goes; whoever still needs it reads it from storage.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sulina.runtime.seam import Buffer
from sulina.wire.header import FrameHeader

_OBJECTS = 1024


@dataclass(frozen=True, slots=True)
class CachedFrame:
    """A frame with its header already read."""

    header: FrameHeader
    data: Buffer

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def cost(self) -> int:
        """Bytes of memory it takes, about: small frames cost more than their bytes."""
        return self.header.size + _OBJECTS


class TailCache:
    """Shared by the topics of a broker; each topic uses its own :class:`TopicTail`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.bytes = 0
        self._order: OrderedDict[tuple[TopicTail, int], int] = OrderedDict()
        """The cost of each frame by where it is, oldest first."""

    def tail(self) -> TopicTail:
        """The part of a topic."""
        return TopicTail(self)

    def resize(self, limit: int) -> None:
        """Hold at most ``limit`` bytes from now on."""
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
        # Ordered: the first key of a plain dict is slow to find once many before it are gone.
        self._frames: OrderedDict[int, CachedFrame] = OrderedDict()

    def add(self, frame: CachedFrame) -> None:
        self._frames[frame.base] = frame
        self._cache.added(self, frame)

    def at(self, base: int) -> CachedFrame | None:
        """The frame that starts at ``base``."""
        return self._frames.get(base)

    def holding(self, offset: int) -> CachedFrame | None:
        """The frame that holds ``offset``: for starting somewhere, not for every step."""
        frame = self._frames.get(offset)
        if frame is not None:
            return frame
        for frame in reversed(self._frames.values()):
            if frame.base <= offset:
                return frame if offset < frame.header.next_offset else None
        return None

    @property
    def first(self) -> int | None:
        """The lowest base offset here."""
        return next(iter(self._frames), None)

    def evict(self, base: int) -> None:
        """Called by the cache to make room."""
        self._frames.pop(base, None)
        self._cache.removed(self, base)

    def clear(self) -> None:
        for base in list(self._frames):
            self.evict(base)
