"""Decides what a commit adds to a topic's table and what it removes. Pure.

The table itself says how far it got: for each partition, the first offset that it has and the next
one that it lacks. A commit takes consecutive objects from there. So any number of committers,
retries and lost answers add each object once and in order, as long as a commit is refused if the
table has changed since it was read.

Objects may be replaced by one with the same offsets. The table also says, as a checksum, which such
objects it has; if those of the listing differ, its files are compared with the listing, and
exchanged in one commit. Until the replaced objects are deleted, older snapshots still work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from sulina.errors import NotFound
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary

PARTLY: Final = "exchanged in part"
"""In place of the checksum, until all are exchanged."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets that a table has of a partition: ``first`` up to but not including ``next``."""

    first: int
    next: int
    replaced: str = ""
    """A checksum of its objects that replaced others; empty without any."""


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
    exchanged: frozenset[ObjectName] = frozenset()
    """What leaves the table because added objects have its records."""

    @property
    def is_empty(self) -> bool:
        """Whether the table is up to date."""
        return not self.added and not self.removed_before and not self.exchanged


def plan(
    extents: Extents,
    listed: Mapping[int, Sequence[ObjectName]],
    summary_of: Callable[[ObjectName], ObjectSummary],
    most: int,
    files_of: Callable[[int], Mapping[ObjectName, int]] = lambda _: {},
) -> CommitPlan:
    """The next commit, with at most ``most`` objects, or a few more if they belong together.

    ``listed`` has each partition's objects in the order of their offsets, ``files_of`` those that
    the table has of a partition, each with the offset after its last. Objects disappear only by
    retention, oldest first: if none is left of what the table has, the table continues at the first
    one that exists. A gap between objects ends what is taken, because the missing one may still
    arrive. The topic's first objects may arrive after later ones with which the table began: they
    are added before these.
    """
    added: list[ObjectName] = []
    removed: dict[int, int] = {}
    gaps: list[Gap] = []
    exchanged: set[ObjectName] = set()
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
        first, end = extent.first, extent.next
        unclear = False
        if checksum(objects, end) != extent.replaced:
            room = most - len(added)
            exchange = _exchange(objects, files_of(partition), extent, summary_of, room)
            unclear = exchange.unclear
            added += exchange.added
            exchanged |= exchange.gone
            first = min([first, *(name.first_offset for name in exchange.added)])
            if not exchange.complete:
                after[partition] = Extent(first, end, PARTLY)
                continue
            end = max(end, exchange.end)
        for name in reversed([each for each in objects if each.first_offset < first]):
            if len(added) >= most:
                break
            try:
                after_it = summary_of(name).last_offset + 1
            except NotFound:  # deleted since it was listed, and removed by another committer
                break
            if after_it != first:
                gaps.append(Gap(partition, after_it, first))
                break
            added.append(name)
            first = name.first_offset
        for name in objects:
            if name.first_offset < end:
                continue
            if name.first_offset > end:
                gaps.append(Gap(partition, end, name.first_offset))
                break
            if len(added) >= most:
                break
            added.append(name)
            end = summary_of(name).last_offset + 1
        after[partition] = Extent(first, end, PARTLY if unclear else checksum(objects, end))
    for partition, extent in extents.items():
        if not listed.get(partition) and extent.first < extent.next:
            removed[partition] = extent.next
            after[partition] = Extent(extent.next, extent.next)
    return CommitPlan(tuple(added), removed, after, tuple(gaps), frozenset(exchanged))


def checksum(objects: Iterable[ObjectName], end: int) -> str:
    """Of those objects below an offset that replaced others; empty if there are none."""
    found = [name.key for name in objects if name.generation and name.first_offset < end]
    return blake2b("\n".join(found).encode(), digest_size=8).hexdigest() if found else ""


@dataclass(slots=True)
class _Exchange:
    added: list[ObjectName] = field(default_factory=list)
    gone: set[ObjectName] = field(default_factory=set)
    end: int = 0
    """The offset after the last object added."""
    complete: bool = True
    """Whether nothing is left to a further commit."""
    unclear: bool = False
    """Whether the table has files that the listing lacks, and no object has their records."""


@dataclass(slots=True)
class _Group:
    """Files and objects that overlap: one exchange, or none."""

    end: int
    added: list[ObjectName] = field(default_factory=list)
    gone: list[ObjectName] = field(default_factory=list)

    def covered(self, ends: Mapping[ObjectName, int]) -> bool:
        """Whether the objects to add have all offsets of the files to remove."""
        if not self.gone:
            return True
        reached = self.gone[0].first_offset
        for name in self.added:
            if name.first_offset > reached:
                return False
            reached = max(reached, ends[name])
        return reached >= max(ends[name] for name in self.gone)


def _exchange(
    objects: Sequence[ObjectName],
    files: Mapping[ObjectName, int],
    extent: Extent,
    summary_of: Callable[[ObjectName], ObjectSummary],
    most: int,
) -> _Exchange:
    """What to exchange in a partition, in the order of offsets, until ``most`` are added.

    A file goes only if objects with its records come. Otherwise the listing may be older than the
    table: of ledgers that became objects out of order, it may have only the later one.
    """
    wanted = [
        name
        for name in objects
        if name.first_offset < extent.next
        # One that replaced others may begin with objects that the table never had.
        if name.first_offset >= extent.first or name.last_offset >= extent.first
    ]
    new = {name: summary_of(name).last_offset + 1 for name in wanted if name not in files}
    old = {name: end for name, end in files.items() if name not in set(wanted)}
    old = {name: end for name, end in old.items() if end > extent.first}
    ends = {**old, **new}
    groups: list[_Group] = []
    for name in sorted(ends, key=lambda each: (each.first_offset, each)):
        # What begins where the others have ended does not belong to them.
        if not groups or name.first_offset >= groups[-1].end:
            groups.append(_Group(0))
        groups[-1].end = max(groups[-1].end, ends[name])
        (groups[-1].added if name in new else groups[-1].gone).append(name)
    found = _Exchange()
    for group in groups:
        if not group.covered(ends):
            found.unclear = True
        elif len(found.added) >= most:
            found.complete = False
            break
        else:
            found.added += group.added
            found.gone.update(group.gone)
    found.end = max((new[name] for name in found.added), default=0)
    return found
