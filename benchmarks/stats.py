"""Percentiles and ratios: pure functions over numbers already measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A distribution in five numbers, all in the unit of the samples."""

    p50: float
    p99: float
    p999: float
    worst: float
    samples: int


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` (0 to 1) of all samples do not exceed.

    ``ordered`` is sorted and not empty. The answer is always a sample: nothing is interpolated,
    so that a tail is never reported better than it was.
    """
    # 0.999 * 1000 is 999.0000000000001 in binary: round before going up to the next rank.
    rank = math.ceil(round(share * len(ordered), 6))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def summarize(samples: Sequence[float]) -> Percentiles:
    """The percentiles of ``samples``, in any order; there must be at least one."""
    ordered = sorted(samples)
    return Percentiles(
        p50=percentile(ordered, 0.50),
        p99=percentile(ordered, 0.99),
        p999=percentile(ordered, 0.999),
        worst=ordered[-1],
        samples=len(ordered),
    )


def steady(samples: Sequence[int]) -> Sequence[int]:
    """``samples`` in order of sending without the first tenth, while connections warm up."""
    return samples[len(samples) // 10 :]


def ratio(better: float, worse: float) -> float | None:
    """``better`` divided by ``worse``; None if that is undefined."""
    return better / worse if worse > 0 else None
