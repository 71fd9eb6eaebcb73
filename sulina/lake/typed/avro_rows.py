"""Avro payloads, one at a time. Pure.

A payload is exactly one datum in Avro's binary encoding. A count or length that exceeds the rest of
the payload is refused before anything is allocated for it.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sulina.lake.typed.avro_shape import AvroSchema, AvroWire
from sulina.lake.typed.json_rows import fit_decimal, parse_uuid, to_text
from sulina.lake.typed.rows import ReadOne, Unfit
from sulina.lake.typed.shapes import BARE, RANGES, Shape

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_MAX_DEPTH: Final = 100
"""Levels of nesting in a datum; only schemas that contain themselves have more."""
_MAX_ITEMS: Final = 1_000_000
"""Items that take no bytes, such as nulls; others cannot exceed the payload's size."""


def avro_reader(schema: AvroSchema) -> ReadOne:
    """Reads payloads of ``schema``."""
    shape = schema.shape

    def read(payload: bytes) -> Any:
        if not payload:
            raise Unfit("it is empty")
        datum = _Datum(payload, schema)
        if shape.wire == BARE:
            inner = shape.fields[0].shape
            value: Any = {"value": datum.value(inner, inner.wire)}
        else:
            value = datum.value(shape, shape.wire)
        if datum.at != len(payload):
            raise Unfit(f"{len(payload) - datum.at} bytes follow the datum")
        return value

    return read


class _Datum:
    def __init__(self, payload: bytes, schema: AvroSchema) -> None:
        self.at = 0
        self._payload = payload
        self._records = schema.records

    # ---- with a shape ----

    def value(self, shape: Shape, wire: AvroWire) -> Any:
        if wire.kind == "union":
            index = self._index(len(wire.branches))
            branch = wire.branches[index]
            if shape.kind == "json":
                return None if branch is None else to_text(self._any(branch, 0))
            return None if branch is None else self.value(shape, branch)
        if shape.kind == "json":
            return to_text(self._any(wire, 0))
        return getattr(self, f"_{wire.kind}")(shape, wire)

    def _record(self, shape: Shape, wire: AvroWire) -> Any:
        found = {}
        for each in shape.fields:
            try:
                found[each.name] = self.value(each.shape, each.shape.wire)
            except Unfit as error:
                raise error.within(each.name) from None
        return found

    def _array(self, shape: Shape, wire: AvroWire) -> Any:
        item = shape.item
        assert item is not None
        return self._items(lambda: self.value(item, item.wire))

    def _map(self, shape: Shape, wire: AvroWire) -> Any:
        item = shape.item
        assert item is not None
        pairs = self._items(lambda: (self.text(), self.value(item, item.wire)))
        return list(dict(pairs).items())

    def _boolean(self, shape: Shape, wire: AvroWire) -> Any:
        byte = self.take(1)[0]
        if byte > 1:
            raise Unfit(f"byte {byte} is not a boolean")
        return byte == 1

    def _int(self, shape: Shape, wire: AvroWire) -> Any:
        number = self.number()
        if not -(1 << 31) <= number < 1 << 31:
            raise Unfit(f"{number} is not an int")
        return _in_range(number * wire.factor, shape)

    def _long(self, shape: Shape, wire: AvroWire) -> Any:
        number = self.number() * wire.factor
        if not -(1 << 63) <= number < 1 << 63:
            raise Unfit(f"{number} microseconds are out of range")
        return _in_range(number, shape)

    def _float(self, shape: Shape, wire: AvroWire) -> Any:
        return _FLOAT.unpack(self.take(4))[0]

    def _double(self, shape: Shape, wire: AvroWire) -> Any:
        return _DOUBLE.unpack(self.take(8))[0]

    def _bytes(self, shape: Shape, wire: AvroWire) -> Any:
        return self._binary(shape, self.take(self._length()))

    def _fixed(self, shape: Shape, wire: AvroWire) -> Any:
        return self._binary(shape, self.take(wire.size))

    def _binary(self, shape: Shape, data: bytes) -> Any:
        if shape.kind != "decimal":
            return data
        number = int.from_bytes(data, "big", signed=True)
        if number.bit_length() > 127:
            raise Unfit(f"a decimal of {len(data)} bytes is too large")
        return fit_decimal(Decimal(number).scaleb(-shape.scale), shape)

    def _string(self, shape: Shape, wire: AvroWire) -> Any:
        text = self.text()
        return parse_uuid(text) if shape.kind == "uuid" else text

    def _enum(self, shape: Shape, wire: AvroWire) -> Any:
        return wire.symbols[self._index(len(wire.symbols))]

    # ---- as JSON ----

    def _any(self, wire: AvroWire, depth: int) -> Any:
        """A value whose column is JSON text; bytes are in base64."""
        if depth > _MAX_DEPTH:
            raise Unfit("it is nested too deeply")
        if wire.kind == "record":
            fields = self._records[wire.name].fields if wire.name else wire.fields
            return {name: self._any(each, depth + 1) for name, each in fields}
        if wire.kind == "union":
            branch = wire.branches[self._index(len(wire.branches))]
            return None if branch is None else self._any(branch, depth + 1)
        if wire.kind in ("array", "map"):
            item = wire.item
            assert item is not None
            if wire.kind == "array":
                return self._items(lambda: self._any(item, depth + 1))
            return dict(self._items(lambda: (self.text(), self._any(item, depth + 1))))
        if wire.kind == "null":
            return None
        value = getattr(self, f"_{wire.kind}")(_ANY, wire)
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if isinstance(value, float) and value - value != 0:
            return str(value)  # JSON has neither NaN nor infinity
        return value

    # ---- parts ----

    def number(self) -> int:
        shift = found = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise Unfit("a number has more than 10 bytes")
        if found >> 64:
            raise Unfit("a number has more than 64 bits")
        return (found >> 1) ^ -(found & 1)

    def take(self, length: int) -> bytes:
        if length > len(self._payload) - self.at:
            raise Unfit(f"it ends at byte {len(self._payload)}, within a value")
        self.at += length
        return self._payload[self.at - length : self.at]

    def text(self) -> str:
        try:
            return self.take(self._length()).decode()
        except UnicodeDecodeError:
            raise Unfit("a string is not UTF-8") from None

    def _length(self) -> int:
        length = self.number()
        if length < 0:
            raise Unfit(f"a length is {length}")
        return length

    def _index(self, count: int) -> int:
        index = self.number()
        if not 0 <= index < count:
            raise Unfit(f"there is no choice {index} of {count}")
        return index

    def _items(self, read: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while count := self.number():
            if count < 0:
                count = -count
                self._length()
            if len(found) + count > max(len(self._payload), _MAX_ITEMS):
                raise Unfit(f"it claims {count} items")
            found += [read() for _ in range(count)]
        return found


_ANY: Final = Shape("json")


def _in_range(number: int, shape: Shape) -> int:
    first, last = RANGES.get(shape.kind, (number, number))
    if not first <= number <= last:
        raise Unfit(f"{number} is not a {shape.kind} of the years 1 to 9999")
    return number
