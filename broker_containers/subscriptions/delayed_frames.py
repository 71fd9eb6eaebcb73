"""Frames whose delivery time is in the future.

A subscription keeps only their offset, length and delivery time, and reads them again when they
are due. Times are wall-clock times in microseconds since 1970.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from broker_containers.subscriptions.expiry import ENDLESS, Lifetime
from broker_containers.subscriptions.loaded_frame import part_of
from sulina.wire import selection

_STALE = 1000


@dataclass(slots=True)
class DelayedFrame:
    """One frame that is not due yet, or due and not loaded yet."""

    due_us: int
    count: int
    done: int = 0
    """Records that are acknowledged already."""
    life: Lifetime = ENDLESS

    @property
    def undone(self) -> int:
        return selection.whole(self.count) & ~self.done


class DelayedFrames:
    """Delayed frames by base offset. Each takes a few hundred bytes, whatever its size."""

    def __init__(self) -> None:
        self._frames: dict[int, DelayedFrame] = {}
        self._bases: list[int] = []
        self._heap: list[tuple[int, int]] = []
        """Delivery time and base offset; entries of removed frames are skipped."""

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def bases(self) -> Sequence[int]:
        """The base offsets, ascending."""
        return self._bases

    @property
    def first(self) -> int | None:
        """The lowest base offset."""
        return self._bases[0] if self._bases else None

    def __getitem__(self, base: int) -> DelayedFrame:
        return self._frames[base]

    def __contains__(self, base: int) -> bool:
        return base in self._frames

    def add(self, base: int, count: int, due_us: int, done: int, life: Lifetime = ENDLESS) -> None:
        """Track a frame, of which the records in ``done`` are acknowledged already."""
        self._frames[base] = DelayedFrame(due_us, count, done, life)
        insort(self._bases, base)
        heappush(self._heap, (due_us, base))

    def remove(self, base: int) -> DelayedFrame | None:
        """Stop tracking a frame; returns what was known of it."""
        known = self._frames.pop(base, None)
        if known is not None:
            del self._bases[bisect_left(self._bases, base)]
            if len(self._heap) > 2 * len(self._frames) + _STALE:
                self._heap = [(each.due_us, base) for base, each in self._frames.items()]
                heapify(self._heap)
        return known

    @property
    def next_due_us(self) -> int | None:
        """The earliest delivery time."""
        while self._heap and self._heap[0][1] not in self._frames:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, wall_us: int) -> int | None:
        """The next frame that is due: the earliest, and of those the lowest offset."""
        due_us = self.next_due_us
        return None if due_us is None or due_us > wall_us else self._heap[0][1]

    def expired(self, ttl_ms: int, wall_us: int) -> int | None:
        """A frame that has expired. Frames that are not due yet have not."""
        if self.due(wall_us) is None:
            return None
        late = (base for base, each in self._frames.items() if each.life.over(ttl_ms, wall_us))
        return next(late, None)

    def is_due(self, base: int, wall_us: int) -> bool:
        """Whether a frame is tracked and due."""
        known = self._frames.get(base)
        return known is not None and known.due_us <= wall_us

    def covers(self, offset: int) -> bool:
        """Whether a record is in one of these frames."""
        index = bisect_right(self._bases, offset) - 1
        return index >= 0 and offset < self._bases[index] + self._frames[self._bases[index]].count

    def settle_range(self, first: int, last: int, mask: int | None) -> int:
        """Acknowledge records before they are delivered; returns how many are new."""
        settled = 0
        index = max(bisect_right(self._bases, first) - 1, 0)
        for base in self._bases[index : bisect_right(self._bases, last)]:
            known = self._frames[base]
            fresh = part_of(base, known.count, first, last, mask) & known.undone
            known.done |= fresh
            settled += fresh.bit_count()
            if not known.undone:
                self.remove(base)
        return settled
