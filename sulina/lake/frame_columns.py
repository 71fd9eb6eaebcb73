"""Decodes the columns of many frames at once, into columns over all their records.

The counterpart of ``sulina.wire.decode`` for whole row groups. It checks the same bounds, in numpy,
and also that the frames can be rebuilt byte for byte from the columns (padding is zero, null keys
have no bytes). The numbers of frames that fail this are in ``IrregularFrames``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sulina.lake.frame_table import FrameTable, IrregularFrames, require
from sulina.lake.runs import Bytes, Ints, join_runs, padded, runs, spread, starts_of
from sulina.wire import header as h

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Consecutive values: value i has ``lengths[i]`` bytes of ``data``."""

    lengths: Ints
    data: Bytes

    def spread(self, where: Bools) -> BinaryColumn:
        """The same values where ``where`` is true, and empty ones elsewhere."""
        lengths = np.zeros(len(where), np.int64)
        lengths[where] = self.lengths
        return BinaryColumn(lengths, self.data)


@dataclass(frozen=True, slots=True)
class Attributes:
    """The number of attributes of each record, and the names and values of all of them."""

    counts: Ints
    names: BinaryColumn
    values: BinaryColumn


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """The columns of all records of a table, in order."""

    times: Ints
    payloads: BinaryColumn
    keys: BinaryColumn | None
    has_key: Bools
    attributes: Attributes | None
    producers: BinaryColumn | None
    """Of the records that have a producer each, which ``has_producer`` marks."""
    has_producer: Bools


class _Cursor:
    """A read position in each of the ``chosen`` frames, bounds-checked by the frame's columns."""

    def __init__(self, table: FrameTable, chosen: Ints, at: Ints, ends: Ints) -> None:
        self.data = table.data
        self.chosen = chosen
        self.at = at
        self.ends = ends
        self.counts = table.counts[chosen]

    def require(self, regular: Bools) -> None:
        if not regular.all():
            raise IrregularFrames(self.chosen[~regular])

    def require_records(self, regular: Bools, counts: Ints) -> None:
        """The same, with one flag per value; each frame has ``counts`` of them."""
        if not regular.all():
            raise IrregularFrames(np.unique(np.repeat(self.chosen, counts)[~regular]))

    def take(self, lengths: Ints) -> Ints:
        """The start of each frame's next section. Checks that the padding after it is zero."""
        starts = self.at
        ends = starts + lengths
        self.at = padded(ends)
        self.require(self.at <= self.ends)
        used = ends % 8
        last = self.data.view("<u8").take(ends // 8, mode="clip")
        beyond = last >> (8 * used).astype(np.uint64)
        self.require((used == 0) | (beyond == 0))
        return starts

    def int32(self, counts: Ints) -> NDArray[np.int32]:
        starts = self.take(4 * counts)
        return self.data.view("<i4")[runs(starts // 4, counts)]

    def lists(self, counts: Ints) -> tuple[Ints, Ints]:
        """The lengths between ascending offsets, and their sum in each frame."""
        starts = self.take(4 * (counts + 1)) // 4
        offsets = self.data.view("<i4")
        places = runs(starts, counts)
        below, above = offsets[places], offsets[places + 1]
        self.require(offsets[starts] == 0)
        self.require_records(above >= below, counts)
        return (above - below).astype(np.int64), offsets[starts + counts].astype(np.int64)

    def binary(self, counts: Ints) -> BinaryColumn:
        lengths, totals = self.lists(counts)
        return BinaryColumn(lengths, join_runs(self.data, self.take(totals), totals))

    def bits(self) -> Bools:
        starts = self.take((self.counts + 7) // 8)
        within = runs(np.zeros_like(self.counts), self.counts)
        octets = self.data[spread(starts, self.counts) + (within >> 3)]
        spare = self.counts % 8
        last = self.data[starts + (self.counts - 1) // 8]
        self.require((spare == 0) | (last >> spare.astype(np.uint8) == 0))
        bits: Bools = (octets >> (within & 7).astype(np.uint8)) & 1 == 1
        return bits


def open_columns(table: FrameTable) -> FrameColumns:
    """Decode the columns of every frame of ``table``. Raises ``IrregularFrames``."""
    everyone = np.arange(len(table))
    columns_at = table.columns_at
    ends = columns_at + table.field("raw_length")
    cursor = _Cursor(table, everyone, columns_at, ends)
    payloads = cursor.binary(table.counts)
    keys, has_key = _keys(table, cursor)
    attributes = _attributes(table, cursor)
    times = _times(table, cursor)
    producers, has_producer = _producers(table, cursor)
    require(cursor.at == ends)
    slots_end = table.slots_at + table.counts * table.has(h.HAS_KEYS)
    names_end = table.names_at + table.field("name_length")
    for begin, end in ((names_end, table.slots_at), (slots_end, columns_at)):
        _Cursor(table, everyone, begin, end).take(np.zeros_like(begin))
    return FrameColumns(times, payloads, keys, has_key, attributes, producers, has_producer)


def _part(table: FrameTable, cursor: _Cursor, flag: int) -> tuple[_Cursor, Bools] | None:
    """A cursor over only the frames with ``flag``, and which records they have."""
    marked = table.has(flag)
    if not marked.any():
        return None
    chosen = np.flatnonzero(marked)
    part = _Cursor(table, chosen, cursor.at[chosen], cursor.ends[chosen])
    return part, spread(marked, table.counts)


def _keys(table: FrameTable, cursor: _Cursor) -> tuple[BinaryColumn | None, Bools]:
    total = int(table.counts.sum())
    found = _part(table, cursor, h.HAS_KEYS)
    if found is None:
        return None, np.zeros(total, np.bool_)
    part, where = found
    present = part.bits()
    keys = part.binary(part.counts)
    part.require_records(present | (keys.lengths == 0), part.counts)
    cursor.at[part.chosen] = part.at
    has_key = np.zeros(total, np.bool_)
    has_key[where] = present
    return keys.spread(where), has_key


def _attributes(table: FrameTable, cursor: _Cursor) -> Attributes | None:
    found = _part(table, cursor, h.HAS_ATTRIBUTES)
    if found is None:
        return None
    part, where = found
    counts, totals = part.lists(part.counts)
    part.require(totals <= h.MAX_ATTRIBUTES)
    names = part.binary(totals)
    values = part.binary(totals)
    cursor.at[part.chosen] = part.at
    of_records = np.zeros(len(where), np.int64)
    of_records[where] = counts
    return Attributes(of_records, names, values)


def _times(table: FrameTable, cursor: _Cursor) -> Ints:
    first_times = table.field("first_time")
    times = spread(first_times, table.counts)
    found = _part(table, cursor, h.HAS_TIMES)
    if found is None:
        return times
    part, where = found
    deltas = part.int32(part.counts).astype(np.int64)
    begins = starts_of(part.counts)[:-1]
    span = (table.field("last_time") - first_times)[part.chosen]
    part.require(np.minimum.reduceat(deltas, begins) == 0)
    part.require(np.maximum.reduceat(deltas, begins) == span)
    cursor.at[part.chosen] = part.at
    times = times.copy()
    times[where] += deltas
    return times


def _producers(table: FrameTable, cursor: _Cursor) -> tuple[BinaryColumn | None, Bools]:
    found = _part(table, cursor, h.HAS_PRODUCERS)
    if found is None:
        return None, np.zeros(int(table.counts.sum()), np.bool_)
    part, where = found
    names = part.binary(part.counts)
    cursor.at[part.chosen] = part.at
    return names, where
