"""Cuts what is to be read into the partitions of a Spark job: few, and of about the same size.

A task in Python costs a fixed amount of CPU whatever it reads, so small objects are put together
and only an object larger than a partition is cut, along its row groups. Pure but for the footers
of those large objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from emr_jobs.source.footers import Footer
from emr_jobs.source.objects import Candidate
from emr_jobs.source.options import END
from emr_jobs.source.storage import Found

_MIN_BYTES: Final = 8 << 20
"""Less than this is not worth a task of its own."""
_SPREAD: Final = 4
"""Tasks into which a small read is cut all the same, so that it uses more than one core."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Records of one object: those with offsets from ``start`` to before ``end``."""

    found: Found
    start: int = 0
    end: int = END
    until: int | None = None
    """The offset at which the object must end, so that there is no gap; None if not known."""


def plan(
    slices: Iterable[tuple[Candidate, int, int]],
    partition_bytes: int,
    footer_of: Callable[[Candidate], Footer],
) -> list[list[Slice]]:
    """Put ``slices`` (each an object, and offsets from and to before) into partitions, in order.

    ``footer_of`` is asked for objects that are larger than a partition.
    """
    wanted = list(slices)
    total = sum(each.found.size for each, _, _ in wanted)
    target = min(partition_bytes, max(_MIN_BYTES, -(-total // _SPREAD)))
    pieces: list[tuple[Slice, int]] = []
    for candidate, start, end in wanted:
        if candidate.found.size <= target + target // 2:
            one = Slice(candidate.found, start, end, candidate.end)
            pieces.append((one, candidate.found.size))
        else:
            footer = candidate.footer or footer_of(candidate)
            pieces += _cut(candidate, footer, start, end, target)
    return _pack(pieces, target)


def _cut(
    candidate: Candidate, footer: Footer, start: int, end: int, target: int
) -> list[tuple[Slice, int]]:
    """A large object in runs of row groups of about ``target`` bytes."""
    pieces: list[tuple[Slice, int]] = []
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
            pieces.append((Slice(candidate.found, *bounds, candidate.end), size))
            first, size = None, 0
    return pieces


def _pack(pieces: Sequence[tuple[Slice, int]], target: int) -> list[list[Slice]]:
    """Partitions of about the same size, each of pieces that follow each other.

    Their number is such that cores, mostly 2, 4 or 8, have the same number of them to do.
    """
    total = max(sum(size for _, size in pieces), 1)
    count = -(-total // target)
    if count > _SPREAD:
        count = -(-count // _SPREAD) * _SPREAD
    partitions: list[list[Slice]] = [[] for _ in range(count)]
    before = 0
    for piece, size in pieces:
        # Where the middle of a piece belongs, there it goes as a whole.
        partitions[min((2 * before + size) * count // (2 * total), count - 1)].append(piece)
        before += size
    return [each for each in partitions if each]
