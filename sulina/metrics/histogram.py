"""Histograms, which servers fill and ``/metrics`` reports."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

LATENCY_MS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Exemplar(NamedTuple):
    """One of the values of a bucket, and the trace that it belongs to."""

    trace: str
    value: float
    at_seconds: float
    """Since 1970."""


_NONE: Final[Mapping[int, Exemplar]] = MappingProxyType({})


class Histogram:
    """Counts values per bucket; adding one takes well under a microsecond."""

    __slots__ = ("_bounds", "_counts", "count", "exemplars", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        assert list(bounds) == sorted(bounds), "bounds must rise"
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.count = 0
        self.sum = 0.0
        self.exemplars: Mapping[int, Exemplar] = _NONE
        """The newest of each bucket that has one."""

    def exemplify(self, exemplar: Exemplar) -> None:
        """Note the trace of a value that was added."""
        bucket = bisect_left(self._bounds, exemplar.value)
        self.exemplars = {**self.exemplars, bucket: exemplar}

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.sum += value

    @classmethod
    def of(cls, bounds: tuple[float, ...], counts: Sequence[int]) -> Histogram:
        """One with these counts per bucket; its sum is unknown, and 0."""
        made = cls(bounds)
        made._counts, made.count = list(counts), sum(counts)
        return made

    def counts(self) -> tuple[int, ...]:
        """The number of values in each bucket, the last one being beyond all bounds."""
        return tuple(self._counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound with the number of values at or below it."""
        return list(zip(self._bounds, accumulate(self._counts), strict=False))

    def quantile(self, share: float) -> float:
        """About the value that this share of all values is at or below; 0 if there are none.

        Values are taken as evenly spread within their bucket, and as the highest bound beyond it.
        """
        rank, low, before = share * self.count, 0.0, 0
        for bound, count in self.cumulative():
            if count >= rank and count > before:
                return low + (bound - low) * (rank - before) / (count - before)
            low, before = bound, count
        return self._bounds[-1] if self.count else 0.0
