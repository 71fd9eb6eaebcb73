"""Decides what a commit adds to a topic's table and what it removes. Pure.

The table itself says how far it got: for each partition, the first offset that it has and the next
one that it lacks. A commit takes consecutive objects from there. So any number of committers,
retries and lost answers add each object once and in order, as long as a commit is refused if the
table has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets that a table has of a partition: ``first`` up to but not including ``next``."""

    first: int
    next: int


Extents = Mapping[int, Extent]
"""By partition."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing offsets: no object has them, but objects before and after them exist."""

    partition: int
    first: int
    end: int
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """One commit: what it adds, what it removes, and what the table says afterwards."""

    added: tuple[ObjectName, ...]
    removed_before: Mapping[int, int]
    """By partition: records below this offset were deleted by retention."""
    extents: Extents
    gaps: tuple[Gap, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether the table is up to date."""
        return not self.added and not self.removed_before


def plan(
    extents: Extents,
    listed: Mapping[int, Sequence[ObjectName]],
    summary_of: Callable[[ObjectName], ObjectSummary],
    most: int,
) -> CommitPlan:
    """The next commit, with at most ``most`` objects.

    ``listed`` has each partition's objects in the order of their offsets. Objects disappear only by
    retention, oldest first: if none is left of what the table has, the table continues at the first
    one that exists. A gap between objects ends what is taken, because the missing one may still
    arrive.
    """
    added: list[ObjectName] = []
    removed: dict[int, int] = {}
    gaps: list[Gap] = []
    after = dict(extents)
    for partition, objects in sorted(listed.items()):
        if not objects:
            continue
        oldest = objects[0].first_offset
        extent = extents.get(partition)
        if extent is not None and oldest > extent.first:
            removed[partition] = oldest
            extent = Extent(oldest, max(oldest, extent.next))
        extent = extent or Extent(oldest, oldest)
        end = extent.next
        for name in objects:
            if name.first_offset < end:
                continue
            if name.first_offset > end:
                gaps.append(Gap(partition, end, name.first_offset))
                break
            if len(added) == most:
                break
            added.append(name)
            end = summary_of(name).last_offset + 1
        after[partition] = Extent(extent.first, end)
    for partition, extent in extents.items():
        if not listed.get(partition) and extent.first < extent.next:
            removed[partition] = extent.next
            after[partition] = Extent(extent.next, extent.next)
    return CommitPlan(tuple(added), removed, after, tuple(gaps))
