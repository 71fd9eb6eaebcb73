"""Counts of latencies in buckets: bounded memory, within 3 %, and several can be added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class LatencyHistogram:
    """Of whole numbers from 0 on."""

    def __init__(self, buckets: Iterable[tuple[int, int]] = ()) -> None:
        self._counts: Counter[int] = Counter()
        for bucket, count in buckets:
            self._counts[bucket] += count

    def add(self, value: int) -> None:
        """Count one value."""
        # Small values have a bucket each; above, each power of two is cut into 32.
        shift = max(value.bit_length() - 6, 0)
        self._counts[(shift << 5) + (value >> shift)] += 1

    def buckets(self) -> list[tuple[int, int]]:
        """Everything in it, to be sent elsewhere and added to another."""
        return list(self._counts.items())

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, share: float) -> int | None:
        """The value that ``share`` per cent do not exceed; None if it is empty."""
        rank = len(self) * share / 100
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _lowest(bucket)
        return None


def _lowest(bucket: int) -> int:
    """The smallest value of a bucket: the inverse of what ``add`` computes."""
    shift = max((bucket >> 5) - 1, 0)
    return (bucket - (shift << 5)) << shift
