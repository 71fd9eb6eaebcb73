"""A histogram of latencies: bounded memory, accurate to 3 %, and mergeable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class LatencyHistogram:
    """Counts whole numbers from 0 on in buckets."""

    def __init__(self, buckets: Iterable[tuple[int, int]] = ()) -> None:
        self._counts: Counter[int] = Counter()
        for bucket, count in buckets:
            self._counts[bucket] += count

    def add(self, value: int) -> None:
        """Count one value."""
        # One bucket per small value; above, 32 buckets per power of two.
        shift = max(value.bit_length() - 6, 0)
        self._counts[(shift << 5) + (value >> shift)] += 1

    def buckets(self) -> list[tuple[int, int]]:
        """The buckets and their counts, to merge into another histogram."""
        return list(self._counts.items())

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, share: float) -> int | None:
        """The value that ``share`` per cent of values do not exceed; None if it is empty."""
        rank = len(self) * share / 100
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _lowest(bucket)
        return None


def _lowest(bucket: int) -> int:
    """The smallest value of a bucket."""
    shift = max((bucket >> 5) - 1, 0)
    return (bucket - (shift << 5)) << shift
