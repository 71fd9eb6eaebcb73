"""Filters that Spark 4.1 and newer tell Python data sources: they narrow what is read. Pure.

Spark still applies all of them, so only what makes objects and row groups unnecessary is used:
comparisons of ``offset`` and ``publish_time``, and the numbers of ``partition``. They are told by
the names of their classes, which earlier versions of PySpark do not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from emr_jobs.source.columns import PARTITION
from emr_jobs.source.options import END, ReadBounds, ReadOptions
from sulina.lake.schema import OFFSET, PUBLISH_TIME

_AFTER: Final = {"GreaterThan": 1, "GreaterThanOrEqual": 0, "EqualTo": 0, "EqualNullSafe": 0}
"""The filters that bound from below, and by how much the first number is higher."""
_BEFORE: Final = {"LessThan": 0, "LessThanOrEqual": 1, "EqualTo": 1, "EqualNullSafe": 1}
"""Those that bound from above, and by how much the end, which is exclusive, is higher."""


def narrowed(options: ReadOptions, filters: Iterable[Any]) -> ReadOptions:
    """The options with what all of ``filters`` leave to be read."""
    bounds, numbers = options.bounds, options.partitions
    for each in filters:
        kind = type(each).__name__
        column = getattr(each, "attribute", ())
        value: Any = getattr(each, "value", None)
        if column == (OFFSET,) and isinstance(value, int):
            start, end = _range(kind, value, bounds.start_offset, bounds.end_offset)
            bounds = replace(bounds, start_offset=start, end_offset=end)
        elif column == (PUBLISH_TIME,) and isinstance(value, datetime) and value.tzinfo:
            time = round(value.timestamp() * 1_000_000)
            start, end = _range(kind, time, bounds.start_time, bounds.end_time)
            bounds = replace(bounds, start_time=start, end_time=end)
        elif column == (PARTITION,) and kind in ("EqualTo", "EqualNullSafe", "In"):
            wanted = frozenset(value if kind == "In" else (value,))
            numbers = wanted if numbers is None else numbers & wanted
    return replace(options, bounds=_ordered(bounds), partitions=numbers)


def _range(kind: str, value: int, start: int, end: int) -> tuple[int, int]:
    if kind in _AFTER:
        start = max(start, min(value + _AFTER[kind], END))
    if kind in _BEFORE:
        end = min(end, max(value + _BEFORE[kind], 0))
    return start, end


def _ordered(bounds: ReadBounds) -> ReadBounds:
    """Contradicting filters leave nothing: the end is not before the start."""
    return replace(
        bounds,
        end_offset=max(bounds.start_offset, bounds.end_offset),
        end_time=max(bounds.start_time, bounds.end_time),
    )
