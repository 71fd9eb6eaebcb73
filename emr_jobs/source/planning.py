"""Divides a read into the partitions of a Spark job: few, and of about the same size.

A Python task costs a fixed amount of CPU, so small objects are combined, and only an object larger
than a partition is divided, along its row groups. Pure, except for reading the footers of those
large objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from emr_jobs.source.footers import Footer
from emr_jobs.source.objects import ObjectCandidate
from emr_jobs.source.options import END
from emr_jobs.source.storage import LakeObject

_MIN_BYTES: Final = 8 << 20
"""The minimum size of a task's share."""
_SPREAD: Final = 4
"""The number of tasks for a small read, so that it uses more than one core."""


@dataclass(frozen=True, slots=True)
class ObjectSlice:
    """The records of one object with offsets from ``start`` up to ``end``, exclusive."""

    found: LakeObject
    start: int = 0
    end: int = END
    until: int | None = None
    """The offset at which the object must end for there to be no gap; None if unknown."""


def plan(
    slices: Iterable[tuple[ObjectCandidate, int, int]],
    partition_bytes: int,
    footer_of: Callable[[ObjectCandidate], Footer],
) -> list[list[ObjectSlice]]:
    """Assign ``slices`` (objects with start and end offsets) to partitions, in order.

    ``footer_of`` is called for objects that are larger than a partition.
    """
    wanted = list(slices)
    total = sum(each.found.size for each, _, _ in wanted)
    target = min(partition_bytes, max(_MIN_BYTES, -(-total // _SPREAD)))
    pieces: list[tuple[ObjectSlice, int]] = []
    for candidate, start, end in wanted:
        if candidate.found.size <= target + target // 2:
            one = ObjectSlice(candidate.found, start, end, candidate.end)
            pieces.append((one, candidate.found.size))
        else:
            footer = candidate.footer or footer_of(candidate)
            pieces += _cut(candidate, footer, start, end, target)
    return _pack(pieces, target)


def _cut(
    candidate: ObjectCandidate, footer: Footer, start: int, end: int, target: int
) -> list[tuple[ObjectSlice, int]]:
    """Divide a large object into runs of row groups of about ``target`` bytes."""
    pieces: list[tuple[ObjectSlice, int]] = []
    size = 0
    first: int | None = None
    groups = [
        group
        for group in footer.row_groups
        if group.last_offset >= start and group.first_offset < end
    ]
    for number, group in enumerate(groups):
        first = group.first_offset if first is None else first
        size += group.end - group.start
        if size >= target or number == len(groups) - 1:
            bounds = max(first, start), min(group.last_offset + 1, end)
            pieces.append((ObjectSlice(candidate.found, *bounds, candidate.end), size))
            first, size = None, 0
    return pieces


def _pack(pieces: Sequence[tuple[ObjectSlice, int]], target: int) -> list[list[ObjectSlice]]:
    """Partitions of about the same size, each with consecutive pieces.

    Their number is chosen so that 2, 4 or 8 cores get the same number each.
    """
    total = max(sum(size for _, size in pieces), 1)
    count = -(-total // target)
    if count > _SPREAD:
        count = -(-count // _SPREAD) * _SPREAD
    partitions: list[list[ObjectSlice]] = [[] for _ in range(count)]
    before = 0
    for piece, size in pieces:
        # A piece goes to the partition in which its middle falls.
        partitions[min((2 * before + size) * count // (2 * total), count - 1)].append(piece)
        before += size
    return [each for each in partitions if each]
