"""A set of offsets as disjoint ranges, for acknowledgements ahead of the window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from sulina.wire import selection


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """The runs of consecutive offsets, each with its first and its last, ascending."""
    found: list[tuple[int, int]] = []
    first = last = None
    for offset in sorted(offsets):
        if first is None or last is None:
            first = last = offset
        elif offset <= last + 1:
            last = offset
        else:
            found.append((first, last))
            first = last = offset
    if first is not None and last is not None:
        found.append((first, last))
    return found


class RangeSet:
    """Offsets as sorted, disjoint, non-adjacent ranges. Bounded: see ``add``."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = (), limit: int = 10_000) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._limit = limit
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Add all offsets from ``first`` to ``last``.

        At the limit, a range that touches no other is dropped: a dropped acknowledgement means one
        more delivery, never a lost record.
        """
        assert first <= last
        start = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if start == end and len(self._firsts) >= self._limit:
            return
        if start < end:
            first = min(first, self._firsts[start])
            last = max(last, self._lasts[end - 1])
        self._firsts[start:end] = [first]
        self._lasts[start:end] = [last]

    def mask(self, base: int, count: int) -> int:
        """Which of the ``count`` records from ``base`` on are in the set, as a selection."""
        result = 0
        index = bisect_left(self._lasts, base)
        while index < len(self._firsts) and self._firsts[index] < base + count:
            first = max(self._firsts[index] - base, 0)
            result |= selection.span(first, min(self._lasts[index] - base, count - 1))
            index += 1
        return result

    def end_of_run(self, offset: int) -> int:
        """The lowest offset from ``offset`` on that is not in the set."""
        index = bisect_left(self._lasts, offset)
        if index < len(self._firsts) and self._firsts[index] <= offset:
            return self._lasts[index] + 1
        return offset

    def drop_below(self, offset: int) -> None:
        """Forget all offsets lower than ``offset``."""
        index = bisect_left(self._lasts, offset)
        del self._firsts[:index], self._lasts[:index]
        if self._firsts and self._firsts[0] < offset:
            self._firsts[0] = offset

    def clear(self) -> None:
        self._firsts.clear()
        self._lasts.clear()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    @property
    def full(self) -> bool:
        """Whether ``add`` drops ranges that touch no other."""
        return len(self._firsts) >= self._limit

    def __len__(self) -> int:
        return len(self._firsts)
