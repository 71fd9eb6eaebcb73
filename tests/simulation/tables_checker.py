"""Invariants of a topic's table: each ledger once and in order, nothing that was gone before.

In the end the table has exactly the objects that exist and are not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from sulina.lake.generations import newest_objects
from sulina.lake.layout import ObjectName
from sulina.lake.summary import ObjectSummary
from sulina.tables.planning import PARTLY
from tests.simulation.catalog import TableFile, TableSnapshot, bounds
from tests.simulation.trace import Trace, Violation


class TablesChecker:
    """Looks at every commit when the catalog takes it."""

    def __init__(
        self,
        trace: Trace,
        lake: Mapping[ObjectName, ObjectSummary],
        kept: Callable[[Iterable[ObjectName]], Iterable[ObjectName]],
    ) -> None:
        """``kept``: the objects that retention has not removed."""
        self._kept = kept
        self._trace = trace
        self._lake = lake
        self._failures: list[str] = []
        self._next: dict[int, int] = {}
        self.records_confirmed = 0

    def fail(self, what: str) -> None:
        """Note a violation; the next ``check`` raises it."""
        self._trace.note(f"VIOLATION {what}")
        self._failures.append(what)

    def check(self) -> None:
        """Raises ``Violation``."""
        if self._failures:
            raise Violation(self._failures[0])

    def committed(self, who: str, gone: frozenset[ObjectName], made: TableSnapshot) -> None:
        """The catalog has taken a commit of ``who``, whose listing came after ``gone`` was gone."""
        self._trace.note(f"{who} commits {made.number}: {_shown(made)}")
        for partition, files in _by_partition(made).items():
            for before, after in pairwise(files):
                if after.name.first_offset < before.next:
                    self.fail(f"{who} commits {_shown(made)}: offsets are doubled")
                elif after.name.first_offset > before.next:
                    self.fail(f"{who} commits {_shown(made)}: offsets are missing in between")
            last = files[-1].next
            if last < self._next.get(partition, 0):
                self.fail(f"{who} commits {_shown(made)}: the table had {self._next[partition]}")
            self._next[partition] = last
        for partition, extent in bounds(made).items():
            told = None if made.extents is None else made.extents[partition]
            if told is None or (told.first, told.next) != (extent.first, extent.next):
                self.fail(f"{who} commits {_shown(made)} with the extents {made.extents}")
        # Exchanges of many objects take several commits; what is left goes with a later one.
        whole = {part for part, each in (made.extents or {}).items() if each.replaced != PARTLY}
        named = {each.name for each in made.files if each.name.partition in whole} & gone
        if named:
            some = ", ".join(f"{each.partition}/{each.first_offset}" for each in sorted(named))
            self.fail(f"{who} commits {_shown(made)}, with objects that were gone before: {some}")
        self.records_confirmed += 1

    def deleted(self, names: Iterable[ObjectName], now: TableSnapshot) -> None:
        """Objects are deleted, although nothing kept the table from dropping them before."""
        if left := {each.name for each in now.files} & set(names):
            self.fail(f"{sorted(left)[0].key} is deleted, and the table has it")

    def rolled_back(self, now: TableSnapshot) -> None:
        """An operator has made an earlier snapshot the newest."""
        self._next = {partition: extent.next for partition, extent in bounds(now).items()}

    def unsettled(self, now: TableSnapshot) -> str:
        """What the table has too much or too little of; empty if it is as it must be."""
        counts = newest_by_partition(self._kept(self._lake))
        wanted = sorted(
            TableFile(name, self._lake[name].last_offset + 1)
            for names in counts.values()
            for name in names
        )
        if sorted(now.files) == wanted:
            return ""
        return f"it has {_shown(now)}, and the lake {_shown(TableSnapshot(0, tuple(wanted)))}"


def newest_by_partition(names: Iterable[ObjectName]) -> dict[int, list[ObjectName]]:
    """The objects that count, in the order of their offsets."""
    found: dict[int, list[ObjectName]] = {}
    for name in names:
        found.setdefault(name.partition, []).append(name)
    return {part: newest_objects(found[part], lambda name: name) for part in sorted(found)}


def _by_partition(snapshot: TableSnapshot) -> dict[int, list[TableFile]]:
    found: dict[int, list[TableFile]] = {}
    for each in sorted(snapshot.files):
        found.setdefault(each.name.partition, []).append(each)
    return found


def _shown(snapshot: TableSnapshot) -> str:
    """The offsets of each partition, as runs."""
    found = []
    for part, files in _by_partition(snapshot).items():
        runs: list[tuple[int, int]] = []
        for each in files:
            start, after = each.name.first_offset, each.next
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            runs.append((start, after))
        found.append(f"{part}: " + " ".join(f"{start}-{after - 1}" for start, after in runs))
    return ", ".join(found) or "nothing"
