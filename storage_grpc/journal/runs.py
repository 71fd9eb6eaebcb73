"""Where the entries of a ledger are: runs of consecutive entries, each in one journal file.

A run takes 8 bytes per entry. The next entry of a ledger in the same file, the common case, extends
the last run. Entries may be added in any order and repeatedly; the latest position counts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

_FIRST = attrgetter("first")


class EntryRun:
    """Consecutive entries in one file."""

    __slots__ = ("file", "first", "lengths", "positions")

    def __init__(self, file: int, first: int, positions: array[int], lengths: array[int]) -> None:
        self.file = file
        self.first = first
        self.positions = positions
        """Start of each record, in units of 8 bytes."""
        self.lengths = lengths
        """Payload bytes of each entry."""

    @property
    def stop(self) -> int:
        """The entry after the last."""
        return self.first + len(self.lengths)

    def part(self, first: int, stop: int) -> EntryRun:
        """The entries from ``first`` to before ``stop``, which must be in this run."""
        low, high = first - self.first, stop - self.first
        return EntryRun(self.file, first, self.positions[low:high], self.lengths[low:high])


class EntryRuns:
    """All runs of one ledger, in order, without overlaps."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[EntryRun] = []

    def add(self, entry: int, file: int, position: int, length: int) -> int:
        """Add an entry. Returns the payload bytes of the one that it replaces."""
        items = self.items
        at = len(items)
        if at and entry < items[-1].stop:
            at = bisect_right(items, entry, key=_FIRST)
        if at:
            before = items[at - 1]
            if before.file == file and entry == before.first + len(before.lengths):
                before.positions.append(position >> 3)
                before.lengths.append(length)
                return 0
        return self.insert(
            EntryRun(file, entry, array("I", (position >> 3,)), array("I", (length,)))
        )

    def insert(self, run: EntryRun) -> int:
        """Add a run, replacing entries that it overlaps. Returns their payload bytes."""
        items = self.items
        if not items or items[-1].stop <= run.first:
            items.append(run)
            return 0
        low = bisect_right(items, run.first, key=_FIRST)
        if low and items[low - 1].stop > run.first:
            low -= 1
        high = low
        kept: list[EntryRun] = []
        replaced = 0
        while high < len(items) and items[high].first < run.stop:
            old = items[high]
            overlap = old.part(max(old.first, run.first), min(old.stop, run.stop))
            replaced += sum(overlap.lengths)
            if old.first < run.first:
                kept.append(old.part(old.first, run.first))
            if old.stop > run.stop:
                kept.append(old.part(run.stop, old.stop))
            high += 1
        kept.append(run)
        kept.sort(key=_FIRST)
        items[low:high] = kept
        return replaced

    def find(self, entry: int) -> tuple[EntryRun, int] | None:
        """The run that has ``entry``, and its index in the run."""
        at = bisect_right(self.items, entry, key=_FIRST)
        if at:
            run = self.items[at - 1]
            if entry < run.stop:
                return run, entry - run.first
        return None

    def walk(self, entry: int) -> Iterator[tuple[int, int, int, int]]:
        """Entry, file, position and length from ``entry`` on, up to the first gap."""
        at = bisect_right(self.items, entry, key=_FIRST) - 1
        while 0 <= at < len(self.items):
            run = self.items[at]
            start = entry - run.first
            if not 0 <= start < len(run.lengths):
                return
            for offset in range(start, len(run.lengths)):
                yield entry, run.file, run.positions[offset] << 3, run.lengths[offset]
                entry += 1
            at += 1

    def last_before_gap(self) -> int:
        """The last entry before the first gap; -1 without entries."""
        last = -1
        for run in self.items:
            if last >= 0 and run.first != last + 1:
                break
            last = run.stop - 1
        return last
