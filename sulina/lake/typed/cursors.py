"""Reads binary payloads field by field, each field in all payloads at once.

A cursor has a position in each payload. A payload that a read finds invalid, or that it leaves to
another decoder, is marked and read on at harmless positions: results count only where ``fits``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sulina.lake.runs import Ints
from sulina.lake.typed.shapes import Shape, arrow_type
from sulina.lake.typed.spans import bitmap, is_utf8, take_spans, used_bytes, with_nulls
from sulina.lake.typed.texts import convert
from sulina.lake.typed.words import Flags, Octets, Words, varints, word

MAX_ITEMS: Final = 256
"""Items of a list; payloads with longer ones are left to another decoder."""


class Cursor:
    """Positions in some payloads, from where they start to where they end."""

    def __init__(self, octets: Octets, starts: Ints, ends: Ints) -> None:
        self.octets = octets
        self.at = starts
        self.ends = ends
        self.fits = np.ones(len(starts), np.bool_)

    def __len__(self) -> int:
        return len(self.at)

    def numbers(self) -> Words:
        """The next variable-length number."""
        found, lengths, valid = varints(self.octets, self.at)
        self.fits &= valid
        self.skip(lengths)
        return found

    def words(self, size: int) -> Words:
        """The next ``size`` bytes, at most eight, as a little-endian number."""
        found = self.octets.at(self.at)
        self.skip(np.full(len(self), size))
        return found if size == 8 else found & word((1 << 8 * size) - 1)

    def spans(self, lengths: Ints) -> tuple[Ints, Ints]:
        """The ranges of the next ``lengths`` bytes."""
        valid = (lengths >= 0) & (lengths <= self.ends - self.at)
        if not valid.all():
            self.fits &= valid
            lengths = np.where(valid, lengths, 0)
        starts = self.at
        self.at = starts + lengths
        return starts, self.at

    def skip(self, lengths: Ints) -> None:
        """Move on, but not beyond the end."""
        self.at = self.at + lengths
        beyond = self.at > self.ends
        if beyond.any():
            self.fits &= ~beyond
            self.at = np.minimum(self.at, self.ends)

    def some(self, chosen: Ints) -> Cursor:
        """A cursor for the chosen payloads, which :meth:`rejoin` takes back."""
        return Cursor(self.octets, self.at[chosen], self.ends[chosen])

    def rejoin(self, other: Cursor, chosen: Ints) -> None:
        """Continue where ``other`` is, in the chosen payloads."""
        at = self.at.copy()
        at[chosen] = other.at
        self.at = at
        self.fits[chosen] &= other.fits


Read = Callable[[Cursor], pa.Array]
"""Reads the next value of each payload."""


def optional(cursor: Cursor, there: Flags, read: Read, empty: pa.Array) -> pa.Array:
    """The values where they are ``there``, and elsewhere the only item of ``empty``."""
    if there.all():
        return read(cursor)
    if not there.any():
        return empty.take(pa.array(np.zeros(len(cursor), np.int64)))
    chosen = np.flatnonzero(there)
    inner = cursor.some(chosen)
    found = read(inner)
    cursor.rejoin(inner, chosen)
    places = np.full(len(cursor), len(found), np.int64)
    places[chosen] = np.arange(len(chosen))
    return pa.concat_arrays([found, empty]).take(pa.array(places))


def repeated(
    cursor: Cursor, more: Callable[[Cursor, int], Flags], read: Read, shape: Shape
) -> pa.Array:
    """Lists of values: ``more`` says in which payloads an item with this number follows."""
    counts = np.zeros(len(cursor), np.int64)
    chosen = np.arange(len(cursor))
    parts: list[pa.Array] = []
    owners: list[Ints] = []
    inner = cursor
    for number in range(MAX_ITEMS + 1):
        follows = more(inner, number)
        if not follows.any():
            break
        going = np.flatnonzero(follows)
        ahead = inner.some(going)
        if number == MAX_ITEMS:
            ahead.fits[:] = False
        else:
            parts.append(read(ahead))
            owners.append(chosen[going])
            counts[chosen[going]] += 1
        cursor.rejoin(ahead, chosen[going])
        chosen = chosen[going]
        inner = cursor.some(chosen)
    wanted = arrow_type(shape)
    values = pa.array([], wanted.value_type)
    if parts:
        order = np.argsort(np.concatenate(owners), kind="stable")
        values = pa.concat_arrays(parts).take(pa.array(order))
    ends = np.zeros(len(cursor) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    return pa.Array.from_buffers(wanted, len(cursor), [None, pa.py_buffer(ends)], children=[values])


def texts(cursor: Cursor, lengths: Ints, shape: Shape) -> pa.Array:
    """The next ``lengths`` bytes as text, or as what a shape makes of it."""
    starts, ends = cursor.spans(lengths)
    found = take_spans(cursor.octets.data, starts, ends, pa.string())
    data, bounds = used_bytes(found)
    if not is_utf8(data):
        # One of those that are not ASCII: leave all of them to another decoder.
        doubtful = np.zeros(len(found), np.bool_)
        doubtful[np.searchsorted(bounds, np.flatnonzero(data >= 0x80), side="right") - 1] = True
        cursor.fits &= ~doubtful
        found = with_nulls(found, ~doubtful)
    if shape.kind == "string":
        return found
    values, fits = convert(found, shape)
    cursor.fits &= fits
    return values


def binaries(cursor: Cursor, lengths: Ints) -> pa.Array:
    """The next ``lengths`` bytes."""
    starts, ends = cursor.spans(lengths)
    return take_spans(cursor.octets.data, starts, ends, pa.binary())


def from_numpy(values: NDArray[Any], of_type: pa.DataType, there: Flags | None = None) -> pa.Array:
    """Numbers as a column of a type with the same width."""
    validity = None if there is None else bitmap(there)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(of_type, len(values), [validity, data])


def choices(cursor: Cursor, indexes: Ints, names: Sequence[str]) -> pa.Array:
    """The names with these indexes."""
    valid = (indexes >= 0) & (indexes < len(names))
    if not valid.all():
        cursor.fits &= valid
        indexes = np.where(valid, indexes, 0)
    return pa.array(names, pa.string()).take(pa.array(indexes))


def small_decimals(cursor: Cursor, numbers: Ints, shape: Shape) -> pa.Array:
    """Decimals whose digits are these numbers."""
    if shape.precision < 19:
        cursor.fits &= np.abs(numbers) < 10**shape.precision
    pairs = np.empty((len(numbers), 2), np.int64)
    pairs[:, 0] = numbers
    pairs[:, 1] = numbers >> 63
    return from_numpy(pairs, arrow_type(shape))
