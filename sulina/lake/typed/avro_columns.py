"""Avro payloads, whole columns at once. What it vouches for is what ``avro_rows`` returns.

Lists in several blocks or of more than 256 items, maps, decimals of more than 8 bytes and values
that become JSON text are left to ``avro_rows``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sulina.lake.runs import Ints
from sulina.lake.typed.avro_shape import AvroSchema, AvroWire
from sulina.lake.typed.cursors import (
    Cursor,
    binaries,
    choices,
    from_numpy,
    optional,
    repeated,
    small_decimals,
    texts,
)
from sulina.lake.typed.shapes import BARE, RANGES, Shape, arrow_type
from sulina.lake.typed.spans import payload_turns
from sulina.lake.typed.words import Flags, word, zigzag

_INT: Final = 1 << 31


class AvroColumns:
    """Decodes payloads of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._shape = schema.shape
        self._suits = schema.shape.wire != BARE and not schema.shape.has("json", "map")

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Flags] | None:
        """Values of all payloads, and which are certain; None if the schema has other types."""
        if not self._suits or not len(payloads):
            return None
        parts, fits = [], []
        for octets, starts, ends in payload_turns(payloads):
            cursor = Cursor(octets, starts, ends)
            parts.append(_value(cursor, self._shape, self._shape.wire))
            fits.append(cursor.fits & (cursor.at == ends) & (ends > starts))
        return pa.concat_arrays(parts), np.concatenate(fits)


def _value(cursor: Cursor, shape: Shape, wire: AvroWire) -> pa.Array:
    if wire.kind == "union":
        return _union(cursor, shape, wire)
    if wire.kind == "record":
        children = [_value(cursor, each.shape, each.shape.wire) for each in shape.fields]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)))
    if wire.kind == "array":
        return _array(cursor, shape)
    if wire.kind in ("bytes", "fixed"):
        lengths = np.full(len(cursor), wire.size) if wire.kind == "fixed" else _long(cursor)
        return (
            _decimals(cursor, lengths, shape)
            if shape.kind == "decimal"
            else (binaries(cursor, lengths))
        )
    if wire.kind == "string":
        return texts(cursor, _long(cursor), shape)
    if wire.kind == "enum":
        return choices(cursor, _long(cursor), wire.symbols)
    if wire.kind == "boolean":
        found = cursor.words(1)
        cursor.fits &= found <= word(1)
        return pa.array(found == word(1))
    if wire.kind == "double":
        return from_numpy(cursor.words(8), pa.float64())
    if wire.kind == "float":
        return from_numpy(cursor.words(4).astype(np.uint32), pa.float32())
    return _integers(cursor, shape, wire)


def _integers(cursor: Cursor, shape: Shape, wire: AvroWire) -> pa.Array:
    found = _long(cursor)
    wanted = arrow_type(shape)
    if wire.kind == "int":
        cursor.fits &= (found >= -_INT) & (found < _INT)
    if wire.factor > 1:
        most = ((1 << 63) - 1) // wire.factor
        cursor.fits &= (found >= -most) & (found <= most)
        found = found * wire.factor
    if shape.kind in RANGES:
        first, last = RANGES[shape.kind]
        cursor.fits &= (found >= first) & (found <= last)
    return from_numpy(found if wanted.bit_width == 64 else found.astype(np.int32), wanted)


def _long(cursor: Cursor) -> Ints:
    return zigzag(cursor.numbers())


def _union(cursor: Cursor, shape: Shape, wire: AvroWire) -> pa.Array:
    """A type or null; another union has no shape of its own."""
    index = _long(cursor)
    cursor.fits &= (index >= 0) & (index < len(wire.branches))
    place, branch = next((n, each) for n, each in enumerate(wire.branches) if each is not None)
    empty = pa.nulls(1, arrow_type(shape))
    return optional(cursor, index == place, lambda inner: _value(inner, shape, branch), empty)


def _array(cursor: Cursor, shape: Shape) -> pa.Array:
    """Lists of at most one block, whose size is not given."""
    item = shape.item
    assert item is not None
    counts = _long(cursor)
    cursor.fits &= counts >= 0
    left = {"counts": np.where(cursor.fits, counts, 0)}

    def more(inner: Cursor, number: int) -> Flags:
        # The same payloads as before, but for those whose last item was the previous one.
        if number:
            left["counts"] = left["counts"][left["counts"] >= number]
        follows: Flags = left["counts"] > number
        return follows

    found = repeated(cursor, more, lambda inner: _value(inner, item, item.wire), shape)
    some = np.flatnonzero(counts > 0)
    if len(some):
        ending = cursor.some(some)
        ending.fits &= ending.words(1) == word(0)
        cursor.rejoin(ending, some)
    return found


def _decimals(cursor: Cursor, lengths: Ints, shape: Shape) -> pa.Array:
    cursor.fits &= (lengths > 0) & (lengths <= 8)
    starts, ends = cursor.spans(np.where(cursor.fits, lengths, 0))
    lengths = np.maximum(ends - starts, 1)
    words = cursor.octets.at(ends - 8).byteswap()
    shift = (64 - 8 * lengths).astype(np.uint64)
    numbers = (words << shift).view(np.int64) >> shift.astype(np.int64)
    return small_decimals(cursor, numbers, shape)
