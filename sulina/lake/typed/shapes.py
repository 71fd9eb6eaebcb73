"""The shape of a payload: what a version of a schema declares, in the types of tables. Pure.

==================  ====================  =============================================
kind                Arrow type            note
==================  ====================  =============================================
boolean             bool
int, long           int32, int64
float, double       float32, float64
decimal             decimal128            with precision and scale
date                date32
timestamp           timestamp[us, UTC]
local_timestamp     timestamp[us]         without a time zone
time                int64                 microseconds since midnight
string, uuid        string                a uuid is checked, and in lower case
binary              binary
json                string                JSON text: its type is not fixed
struct, list, map   struct, list, map
==================  ====================  =============================================

``time`` and ``uuid`` do not use Parquet's types of these names: Spark 4.0 refuses to read a file
in which one of them occurs, whatever columns a query needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

MAX_DEPTH: Final = 32
"""Levels of nesting in a table; deeper values become JSON text."""
MAX_REPEATS: Final = 3
"""How often a type is expanded within itself; a deeper one becomes JSON text."""
MAX_FIELDS: Final = 1_000
"""Columns of a version; what follows becomes JSON text. References can multiply."""

RANGES: Final = {
    "date": (-719_162, 2_932_896),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "local_timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""The first and the last day and microsecond of the years 1 to 9999, which all engines know."""

MISSING: Final = object()
"""The default of a field that has none. Compare with ``is``."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A type. Two shapes are equal if their columns are, however values are encoded."""

    kind: str
    fields: tuple[ShapeField, ...] = ()
    """Of a struct, in declared order."""
    item: Shape | None = None
    """The elements of a list, or the values of a map."""
    key: Shape | None = None
    """The keys of a map."""
    precision: int = 0
    scale: int = 0
    wire: Any = field(default=None, compare=False)
    """How the schema's own format encodes it; for that format's decoder."""

    @property
    def inner(self) -> tuple[Shape, ...]:
        """The shapes directly within this one."""
        found = [each.shape for each in self.fields]
        return (*found, *(each for each in (self.key, self.item) if each is not None))

    def has(self, *kinds: str) -> bool:
        """Whether this shape, or one within it, is of one of these kinds."""
        return self.kind in kinds or any(each.has(*kinds) for each in self.inner)


@dataclass(frozen=True, slots=True)
class ShapeField:
    """A field of a struct."""

    name: str
    shape: Shape
    number: int = 0
    """Protobuf's field number, which identifies the field; 0 elsewhere."""
    aliases: tuple[str, ...] = ()
    """Former names (Avro)."""
    default: Any = field(default=MISSING, compare=False)
    """For records of versions that lack the field, as a Python value that Arrow accepts."""


JSON_TEXT: Final = Shape("json")

_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "local_timestamp": pa.timestamp("us"),
    "time": pa.int64(),
    "string": pa.string(),
    "uuid": pa.string(),
    "json": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(shape: Shape) -> pa.DataType:
    """The Arrow type of values of ``shape``; everything but a map's keys may be null."""
    if shape.kind == "struct":
        return pa.struct([pa.field(each.name, arrow_type(each.shape)) for each in shape.fields])
    if shape.kind == "list":
        assert shape.item is not None
        return pa.list_(pa.field("element", arrow_type(shape.item)))
    if shape.kind == "map":
        assert shape.item is not None and shape.key is not None
        return pa.map_(arrow_type(shape.key), arrow_type(shape.item))
    if shape.kind == "decimal":
        return pa.decimal128(shape.precision, shape.scale)
    return _SIMPLE[shape.kind]


def checked_default(value: Any, shape: Shape) -> Any:
    """``value`` if a column of ``shape`` can hold it, and otherwise ``MISSING``."""
    try:
        pa.array([value], arrow_type(shape))
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return MISSING
    first, last = RANGES.get(shape.kind, (None, None))
    inside = value is None or first is None or first <= value <= last
    return value if inside else MISSING


def as_struct(shape: Shape) -> Shape:
    """A shape that has columns: anything but a struct becomes the only field, ``value``."""
    if shape.kind == "struct" and shape.fields:
        return shape
    return Shape("struct", (ShapeField("value", shape),), wire=BARE)


BARE: Final = "bare"
"""The ``wire`` of a struct that its format does not have, see :func:`as_struct`."""


class Budget:
    """Limits what a schema expands to. One for each version."""

    def __init__(self) -> None:
        self._fields = 0

    def spend(self, depth: int) -> bool:
        """Whether one more type may be expanded at ``depth``."""
        self._fields += 1
        return depth <= MAX_DEPTH and self._fields <= MAX_FIELDS
