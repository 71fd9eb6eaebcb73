"""The frames that have records coming due, ordered by their earliest time."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

NEVER = float("inf")
_STALE = 1000


class DueTimes:
    """Base offsets of frames, and when to look at each. Costs O(log n) per operation."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def note(self, base: int, due: float) -> None:
        """Look at a frame at ``due``, or earlier if an earlier time is noted."""
        if base not in self._times or due < self._times[base]:
            self._times[base] = due
            heappush(self._heap, (due, base))
            if len(self._heap) > 2 * len(self._times) + _STALE:
                self._heap = [(due, base) for base, due in self._times.items()]
                heapify(self._heap)

    def drop(self, base: int) -> None:
        """Remove a frame."""
        self._times.pop(base, None)

    @property
    def next_due(self) -> float:
        """The earliest time noted."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def take(self, now: float) -> list[int]:
        """Remove and return the frames that are due now."""
        taken: list[int] = []
        while self.next_due <= now:
            _, base = heappop(self._heap)
            del self._times[base]
            taken.append(base)
        return taken

    def __iter__(self) -> Iterator[int]:
        """The noted frames, in any order."""
        return iter(self._times)
