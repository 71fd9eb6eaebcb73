"""Protobuf payloads, whole columns at once. What it vouches for is what ``protobuf_rows`` returns.

It reads messages as every library writes them: known fields, in the order of their numbers. Other
orders, unknown fields, lists of more than 256 items, maps and values that become JSON text are left
to ``protobuf_rows``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from sulina.lake.runs import Ints
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
from sulina.lake.typed.protobuf_rows import FIRST_SECOND, LAST_SECOND, enum_name
from sulina.lake.typed.protobuf_shape import ProtobufSchema, ProtobufWire
from sulina.lake.typed.shapes import BARE, Shape, arrow_type
from sulina.lake.typed.spans import payload_turns
from sulina.lake.typed.words import Flags, Words, word, zigzag

_F: Final = FieldDescriptor
_FIXED: Final = {
    _F.TYPE_DOUBLE: 8,
    _F.TYPE_FIXED64: 8,
    _F.TYPE_SFIXED64: 8,
    _F.TYPE_FLOAT: 4,
    _F.TYPE_FIXED32: 4,
    _F.TYPE_SFIXED32: 4,
}
_LENGTH: Final = 2
"""The wire type of texts, bytes and messages."""


class ProtobufColumns:
    """Decodes payloads of one schema."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._shape = schema.shape
        self._suits = _suits(schema.shape)

    def decode(self, payloads: pa.Array) -> tuple[pa.Array, Flags] | None:
        """Values of all payloads, and which are certain; None if the schema has other types."""
        if not self._suits or not len(payloads):
            return None
        parts, fits = [], []
        for octets, starts, ends in payload_turns(payloads):
            cursor = Cursor(octets, starts, ends)
            parts.append(_message(cursor, self._shape))
            fits.append(cursor.fits & (cursor.at == ends))
        return pa.concat_arrays(parts), np.concatenate(fits)


def _suits(shape: Shape) -> bool:
    if shape.wire == BARE or shape.kind in ("json", "map"):
        return False
    wire: ProtobufWire = shape.wire
    # Groups are encoded in another way; text that need not be UTF-8 and values that a closed enum
    # lacks have their own rules.
    if wire.field is not None and wire.form != "map":
        kind = wire.field.type
        if kind == _F.TYPE_GROUP or (kind == _F.TYPE_ENUM and wire.field.enum_type.is_closed):
            return False
    return all(map(_suits, shape.inner))


def _message(cursor: Cursor, shape: Shape) -> pa.Array:
    """The fields up to the end of each payload; a following field is not accepted."""
    found = {}
    for each in sorted(shape.fields, key=lambda field: field.number):
        found[each.name] = _field(cursor, each.number, each.shape)
    children = [found[each.name] for each in shape.fields]
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)))


def _field(cursor: Cursor, number: int, shape: Shape) -> pa.Array:
    wire: ProtobufWire = shape.wire
    if wire.form == "list":
        return _list(cursor, number, shape)
    there = _follows(cursor, number, _wire_type(wire))
    absent = None if wire.presence else wire.absent
    empty = pa.array([absent], arrow_type(shape))
    return optional(cursor, there, lambda inner: _tagged(inner, number, shape), empty)


def _list(cursor: Cursor, number: int, shape: Shape) -> pa.Array:
    item = shape.item
    assert item is not None
    wire_type = _wire_type(item.wire)
    if wire_type != _LENGTH:
        packed = _follows(cursor, number, _LENGTH)
        # Packed numbers: one range of bytes for each payload.
        if packed.any():
            return _packed(cursor, number, shape, item, packed)

    def more(inner: Cursor, _: int) -> Flags:
        return _follows(inner, number, wire_type)

    return repeated(cursor, more, lambda inner: _tagged(inner, number, item), shape)


def _packed(cursor: Cursor, number: int, shape: Shape, item: Shape, there: Flags) -> pa.Array:
    chosen = np.flatnonzero(there)
    inner = cursor.some(chosen)
    inner.at = inner.at + len(_tag(number, _LENGTH))
    starts, ends = inner.spans(inner.numbers().view(np.int64))
    cursor.rejoin(inner, chosen)
    firsts, lasts = cursor.at.copy(), cursor.at.copy()
    firsts[chosen], lasts[chosen] = starts, ends
    within = Cursor(cursor.octets, firsts, lasts)

    def more(some: Cursor, _: int) -> Flags:
        follows: Flags = some.at < some.ends
        return follows

    found = repeated(within, more, lambda some: _value(some, item, item.wire), shape)
    cursor.fits &= within.fits
    return found


def _wire_type(wire: ProtobufWire) -> int:
    if wire.form != "scalar":
        return _LENGTH
    kind = wire.field.type
    if kind in _FIXED:
        return 1 if _FIXED[kind] == 8 else 5
    return _LENGTH if kind in (_F.TYPE_STRING, _F.TYPE_BYTES) else 0


def _tag(number: int, wire_type: int) -> bytes:
    tag = number << 3 | wire_type
    found = bytearray()
    while tag >= 0x80:
        found.append(tag & 0x7F | 0x80)
        tag >>= 7
    found.append(tag)
    return bytes(found)


def _follows(cursor: Cursor, number: int, wire_type: int) -> Flags:
    tag = _tag(number, wire_type)
    follows: Flags = cursor.octets.equal(cursor.at, tag) & (cursor.at + len(tag) <= cursor.ends)
    return follows


def _tagged(cursor: Cursor, number: int, shape: Shape) -> pa.Array:
    wire: ProtobufWire = shape.wire
    cursor.at = cursor.at + len(_tag(number, _wire_type(wire)))
    return _value(cursor, shape, wire)


def _value(cursor: Cursor, shape: Shape, wire: ProtobufWire) -> pa.Array:
    if wire.form == "scalar":
        return _scalar(cursor, shape, wire.field)
    starts, ends = cursor.spans(_lengths(cursor))
    inner = Cursor(cursor.octets, starts, ends)
    if wire.form == "message":
        found = _message(inner, shape)
    elif wire.form == "wrapper":
        assert wire.item is not None
        item = wire.item
        there = _follows(inner, 1, _wire_type(item))
        empty = pa.array([item.absent], arrow_type(shape))
        found = optional(inner, there, lambda some: _wrapped(some, shape, item), empty)
    else:
        found = _timestamp(inner)
    cursor.fits &= inner.fits & (inner.at == inner.ends)
    return found


def _wrapped(cursor: Cursor, shape: Shape, wire: ProtobufWire) -> pa.Array:
    cursor.at = cursor.at + 1
    return _scalar(cursor, shape, wire.field)


def _timestamp(cursor: Cursor) -> pa.Array:
    parts = []
    for number in (1, 2):
        there = _follows(cursor, number, 0)
        parts.append(optional(cursor, there, lambda some: _after_tag(some), pa.array([0])))
    seconds, nanos = (part.to_numpy() for part in parts)
    nanos = nanos.astype(np.int32)
    cursor.fits &= (seconds >= FIRST_SECOND) & (seconds <= LAST_SECOND)
    cursor.fits &= (nanos >= 0) & (nanos < 1_000_000_000)
    return from_numpy(seconds * 1_000_000 + nanos // 1000, pa.timestamp("us", tz="UTC"))


def _after_tag(cursor: Cursor) -> pa.Array:
    cursor.at = cursor.at + 1
    return from_numpy(cursor.numbers(), pa.int64())


def _lengths(cursor: Cursor) -> Ints:
    found: Ints = cursor.numbers().view(np.int64)
    return found


def _scalar(cursor: Cursor, shape: Shape, field: Any) -> pa.Array:
    kind = field.type
    if kind == _F.TYPE_STRING:
        return texts(cursor, _lengths(cursor), shape)
    if kind == _F.TYPE_BYTES:
        return binaries(cursor, _lengths(cursor))
    if kind in _FIXED:
        found = cursor.words(_FIXED[kind])
    else:
        found = cursor.numbers()
    if kind == _F.TYPE_ENUM:
        return _enum(cursor, found.astype(np.int32), field)
    return _number(cursor, found, shape, kind)


def _number(cursor: Cursor, found: Words, shape: Shape, kind: int) -> pa.Array:
    wanted = arrow_type(shape)
    if kind == _F.TYPE_BOOL:
        return pa.array(found != word(0))
    if kind in (_F.TYPE_UINT64, _F.TYPE_FIXED64):
        cursor.fits &= found < word(1 << 63)
        return small_decimals(cursor, found.view(np.int64), shape)
    if kind == _F.TYPE_SINT32:
        return from_numpy(zigzag(found & word(0xFFFFFFFF)).astype(np.int32), wanted)
    if kind == _F.TYPE_SINT64:
        return from_numpy(zigzag(found), wanted)
    if kind == _F.TYPE_UINT32:
        return from_numpy(found & word(0xFFFFFFFF), wanted)
    return from_numpy(found if wanted.bit_width == 64 else found.astype(np.uint32), wanted)


def _enum(cursor: Cursor, numbers: Any, field: Any) -> pa.Array:
    known = field.enum_type.values_by_number
    values = np.array(sorted(known), np.int32)
    places = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
    cursor.fits &= values[places] == numbers
    return choices(cursor, places, [enum_name(field, int(each)) for each in values])
