"""Which objects of a listing count: those that replace others, instead of those replaced. Pure.

The owner of a topic replaces the objects of consecutive ledgers by one object of the same offsets
and a higher generation. The replaced ones stay for a while, for readers that know them, so listings
have both. Ranges of two generations never overlap in part, unless one of them was given up: then
the objects that it should have replaced are all still there, and both give the same records.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from typing import TypeVar

from sulina.lake.layout import ObjectName

T = TypeVar("T")


def newest_objects(found: Iterable[T], name_of: Callable[[T], ObjectName]) -> list[T]:
    """The objects of one topic partition that count, each offset in one, in their order.

    The highest generation wins; an object that overlaps a chosen one is left out.
    """
    listed = sorted(found, key=name_of)
    if not any(name_of(each).generation for each in listed):
        return listed
    chosen: list[tuple[int, int]] = []
    kept: list[T] = []
    for each in sorted(listed, key=lambda one: -name_of(one).generation):
        name = name_of(each)
        last = name.last_offset if name.generation else name.first_offset
        if not _overlaps(chosen, name.first_offset, last):
            kept.append(each)
            if name.generation:
                insort(chosen, (name.first_offset, last))
    return sorted(kept, key=name_of)


def _overlaps(chosen: list[tuple[int, int]], first: int, last: int) -> bool:
    """Whether one of these ranges, which do not overlap each other, has an offset in common."""
    at = bisect_right(chosen, (last, 1 << 63))
    return at > 0 and chosen[at - 1][1] >= first
