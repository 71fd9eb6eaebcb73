"""The simulated catalog: one machine with one topic's table, its faults, and its clients.

It keeps what an Iceberg catalog keeps, as far as the code that commits depends on it: snapshots
with their files and their summaries, and which of them is the newest. ``tests/tables`` proves by a
contract that real catalogs behave the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sulina.errors import SulinaError, Unavailable, UnknownOutcome
from sulina.lake.layout import ObjectName
from sulina.tables.committing import Conflict
from sulina.tables.planning import CommitPlan, Extent, Extents, checksum


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """An object that a table names, with the end of its offsets."""

    name: ObjectName
    next: int


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One state of the table."""

    number: int
    files: tuple[TableFile, ...] = ()
    extents: Extents | None = field(default_factory=dict)
    """Of its summary; None in a snapshot of somebody else."""


class Stale(SulinaError):
    """The table is not what the commit was planned from."""


class TableState:
    """The catalog's own memory. Calls take effect at once."""

    def __init__(self, *, conditional: bool = True, progress_in_snapshot: bool = True) -> None:
        """Without ``conditional``, every commit is taken.

        Without ``progress_in_snapshot``, progress is a property of the table.
        """
        self._progress: Extents | None = None if progress_in_snapshot else {}
        self.snapshots = [TableSnapshot(0)]
        self.current = self.snapshots[0]
        self._conditional = conditional

    def read(self) -> TableSnapshot:
        """The newest snapshot."""
        if self._progress is None:
            return self.current
        return replace(self.current, extents=self._progress)

    def commit(self, base: int, made: TableSnapshot) -> TableSnapshot:
        """Make ``made`` the newest snapshot if ``base`` is. Raises ``Stale``."""
        if base != self.current.number and self._conditional:
            raise Stale(f"the table has snapshot {self.current.number}, not {base}")
        if self._progress is not None and made.extents is not None:
            self._progress = made.extents
        self.current = replace(made, number=len(self.snapshots))
        self.snapshots.append(self.current)
        return self.current

    def roll_back(self, number: int) -> None:
        """Make an earlier snapshot the newest again."""
        self.current = self.snapshots[number]

    def rewrite(self) -> None:
        """As an engine commits: the same files, without our summary."""
        self.commit(self.current.number, replace(self.current, extents=None))


class SimTable:
    """``TopicTable`` of one committer, by calls that block."""

    def __init__(
        self,
        read: Callable[[], TableSnapshot],
        commit: Callable[[int, TableSnapshot], object],
        next_of: Callable[[ObjectName], int],
    ) -> None:
        self._read = read
        self._commit = commit
        self._next_of = next_of
        self._base = TableSnapshot(0)

    def extents(self) -> Extents:
        try:
            self._base = self._read()
        except UnknownOutcome as error:
            raise Unavailable(str(error)) from None
        return self._base.extents if self._base.extents is not None else bounds(self._base)

    def files(self, partition: int) -> dict[ObjectName, int]:
        found = (each for each in self._base.files if each.name.partition == partition)
        return {each.name: each.next for each in found}

    def commit(self, planned: CommitPlan) -> None:
        kept = [
            each
            for each in self._base.files
            if not _is_removed(each, planned.removed_before)
            if each.name not in planned.exchanged
        ]
        added = [TableFile(name, self._next_of(name)) for name in planned.added]
        made = TableSnapshot(0, (*kept, *added), planned.extents)
        try:
            self._commit(self._base.number, made)
        except Stale as error:
            raise Conflict(str(error)) from None
        except Unavailable as error:
            raise UnknownOutcome(str(error)) from None


def bounds(snapshot: TableSnapshot) -> dict[int, Extent]:
    """The offsets that the files of a snapshot have, by partition."""
    found: dict[int, Extent] = {}
    for each in snapshot.files:
        first, after = each.name.first_offset, each.next
        known = found.get(each.name.partition, Extent(first, after))
        found[each.name.partition] = Extent(min(known.first, first), max(known.next, after))
    return {
        part: replace(
            extent,
            replaced=checksum(
                sorted(each.name for each in snapshot.files if each.name.partition == part),
                extent.next,
            ),
        )
        for part, extent in found.items()
    }


def _is_removed(file: TableFile, before: Mapping[int, int]) -> bool:
    return file.next <= before.get(file.name.partition, 0)
