"""What retention has removed in the simulated lake, as the list of ledgers has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sulina.lake.layout import ObjectName, RemovedMark
from sulina.lake.removed import kept_objects


def kept_of(
    names: Iterable[ObjectName], marks: Mapping[int, Sequence[RemovedMark]]
) -> list[ObjectName]:
    """The objects of all partitions that are not removed, by the marks."""
    found: dict[int, list[ObjectName]] = {}
    for name in names:
        found.setdefault(name.partition, []).append(name)
    return [
        name
        for part, each in found.items()
        for name in kept_objects(each, marks.get(part, ()), lambda one: one)
    ]


class Removals:
    """The newest mark of each partition, and what can no longer be restored."""

    def __init__(self) -> None:
        self._marks: dict[int, RemovedMark] = {}
        self._deleted: dict[int, int] = {}
        self._undone: Counter[int] = Counter()

    def ledger(self, partition: int) -> int:
        """Ledgers up to this one are removed."""
        return self._marks.get(partition, RemovedMark(0, 0)).ledger

    def change(self, partition: int, ledger: int) -> RemovedMark:
        """Remove ledgers up to this one, or restore those after it."""
        number = self._marks.get(partition, RemovedMark(0, 0)).number + 1
        self._marks[partition] = RemovedMark(number, ledger)
        return self._marks[partition]

    def undo(self, partition: int) -> None:
        """What is removed, and not deleted yet, will not be deleted."""
        self._undone[partition] += 1

    def undone(self, partition: int) -> int:
        """How often removals were undone."""
        return self._undone[partition]

    def deleted(self, partition: int, ledger: int) -> None:
        """Ledgers up to this one can no longer be restored."""
        self._deleted[partition] = max(self.lowest(partition), ledger)

    def lowest(self, partition: int) -> int:
        """The ledger up to which all are deleted."""
        return self._deleted.get(partition, 0)

    def kept(self, names: Iterable[ObjectName]) -> list[ObjectName]:
        """The objects that are not removed."""
        return kept_of(names, {part: [mark] for part, mark in self._marks.items()})
