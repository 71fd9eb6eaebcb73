"""Collects acknowledgements into few, small commands. Pure.

Consecutive offsets become one range, a whole batch costs the same whatever its size, and scattered
offsets are sent as bit masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.header import MAX_RECORDS

_MOST_SELECTIONS: Final = 512
_MASK_FROM: Final = 4
"""From this many nearby runs on, one mask is smaller than one range per run."""

Run = tuple[int, int]


class Acks:
    """Acknowledgements that were not sent yet. ``records`` counts single records, ``batches``
    whole batches."""

    __slots__ = ("_cumulative", "_first", "_last", "_masked", "_runs", "batches", "records")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._runs: list[Run] = []
        self._first = 0  # the run being extended; empty when last < first
        self._last = -1
        self._masked: list[tuple[int, int]] = []  # base offset and mask
        self._cumulative: list[int] = []  # descending
        self.records = 0
        self.batches = 0

    def __bool__(self) -> bool:
        return bool(self.records or self.batches or self._cumulative)

    def one(self, offset: int) -> None:
        """Acknowledge one record."""
        if offset == self._last + 1 and self._last >= self._first:
            self._last = offset
        else:
            self._close_run()
            self._first = self._last = offset
        self.records += 1

    def whole(self, first: int, last: int) -> None:
        """Acknowledge all records from ``first`` to ``last``."""
        if first != self._last + 1 or self._last < self._first:
            self._close_run()
            self._first = first
        self._last = last
        self.batches += 1

    def part(self, base: int, mask: int) -> None:
        """Acknowledge the records that ``mask`` selects in the frame at offset ``base``."""
        self._masked.append((base, mask))
        self.batches += 1

    def up_to(self, offset: int) -> None:
        """Acknowledge every record up to and including ``offset`` that was delivered before it.

        A delayed record arrives after higher offsets and is not covered by those.
        """
        while self._cumulative and self._cumulative[-1] <= offset:
            self._cumulative.pop()
        self._cumulative.append(offset)

    def take(self) -> list[pb.Ack]:
        """Everything as commands with a bounded number of selections each. Clears this object."""
        self._close_run()
        acks = [
            pb.Ack(selections=[range_selection(last, last)], cumulative=True)
            for last in self._cumulative
        ]
        selections = [*_of_runs(_merged(self._runs))]
        selections += [mask_selection(base, mask) for base, mask in self._masked]
        self._clear()
        return acks + [
            pb.Ack(selections=selections[start : start + _MOST_SELECTIONS])
            for start in range(0, len(selections), _MOST_SELECTIONS)
        ]

    def _close_run(self) -> None:
        if self._last >= self._first:
            self._runs.append((self._first, self._last))
        self._first, self._last = 0, -1


def _merged(runs: list[Run]) -> list[Run]:
    """Sorted, with overlapping and adjacent runs joined."""
    merged: list[Run] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _of_runs(runs: Iterable[Run]) -> Iterator[pb.Selection]:
    near: list[Run] = []
    for run in runs:
        if near and run[1] - near[0][0] >= MAX_RECORDS:
            yield from _of_near(near)
            near = []
        near.append(run)
    yield from _of_near(near)


def _of_near(runs: list[Run]) -> Iterator[pb.Selection]:
    """Selections for runs that fit into one mask."""
    if len(runs) < _MASK_FROM:
        for first, last in runs:
            yield range_selection(first, last)
        return
    base = runs[0][0]
    bits = bytearray(b"0" * (runs[-1][1] - base + 1))
    for first, last in runs:
        bits[first - base : last - base + 1] = b"1" * (last - first + 1)
    yield mask_selection(base, int(bits[::-1], 2))


def range_selection(first: int, last: int) -> pb.Selection:
    """Every offset from ``first`` to ``last``."""
    return pb.Selection(first=first, last=last)


def mask_selection(base: int, mask: int) -> pb.Selection:
    """Offset ``base`` + i for each bit i of ``mask``."""
    last = base + mask.bit_length() - 1
    return pb.Selection(first=base, last=last, mask=selection.to_bytes(mask))
